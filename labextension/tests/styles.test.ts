import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

const VIEW = fileURLToPath(new URL('../src/view/', import.meta.url));
const read = (path: string): string => readFileSync(VIEW + path, 'utf-8');
const files = readdirSync(VIEW, { recursive: true, encoding: 'utf-8' }).map(name =>
  name.replaceAll('\\', '/'),
);
const sheets = files.filter(name => name.endsWith('.css') && name !== 'view.css');
const sections = sheets.filter(name => name.startsWith('sections/'));
const sectionOf = (path: string): string => path.split('/')[1] ?? '';

const withoutComments = (css: string): string => css.replaceAll(/\/\*.*?\*\//gs, '');
/** Return the selectors of a sheet, one for each comma that stands in no brackets. */
const selectors = (css: string): string[] =>
  [
    ...withoutComments(css)
      .replaceAll(/@[^{]*\{/g, '')
      .matchAll(/([^{};]+)\{/g),
  ].flatMap(([, list = '']) =>
    list
      .split(/,(?![^(]*\))/)
      .map(selector => selector.trim())
      .filter(selector => selector.includes('nbdist')),
  );
const classes = (text: string): string[] =>
  [...text.matchAll(/\.(nbdist[\w-]*)/g)].map(([, name = '']) => name);

/** Return the classes that a section's code names, as `elementsIn` writes them. */
function named(section: string): Set<string> {
  const code = files.filter(name => name.endsWith('.ts') && sectionOf(name) === section).map(read);
  const found = new Set<string>();
  for (const [, written = ''] of code.join('\n').matchAll(/'([a-z0-9]+[.+][\w.+-]+)'/g)) {
    for (const [, sign, name = ''] of written.matchAll(/([.+])([\w-]+)/g)) {
      found.add(`nbdist-${sign === '+' ? 'parts' : section}-${name}`);
    }
  }
  return found;
}

describe('the style sheets of the view', () => {
  it('are all imported, once', () => {
    const imports = [...read('view.css').matchAll(/@import url\('\.\/(.*)'\);/g)];
    expect(imports.map(([, name]) => name).sort()).toEqual(sheets.sort());
  });

  it.each(sections)('have classes of their own, %s', sheet => {
    const section = sectionOf(sheet);
    expect(sheet).toBe(`sections/${section}/${section}.css`);
    const own = new RegExp(`^nbdist-${section}-`);
    for (const selector of selectors(read(sheet))) {
      // Those of `parts` may look otherwise within a section.
      const foreign = classes(selector).filter(
        name => name !== 'nbdist' && !own.test(name) && !name.startsWith('nbdist-parts-'),
      );
      expect([selector, foreign]).toEqual([selector, []]);
      if (section === 'page') continue;
      const stays = classes(selector).some(name => own.test(name));
      expect([selector, stays]).toEqual([selector, true]);
    }
  });

  it.each(sections)('are those of the code beside them, %s', sheet => {
    const beside = files.filter(
      name => name.endsWith('.ts') && name.startsWith(`${sheet.slice(0, sheet.lastIndexOf('/'))}/`),
    );
    const written = beside
      .map(read)
      .flatMap(code => [...code.matchAll(/= elementsIn\('(\w+)'\)/g)]);
    expect(new Set(written.map(([, name]) => name))).toEqual(new Set([sectionOf(sheet)]));
  });

  it.each(sections)('define no class that nothing has, %s', sheet => {
    const section = sectionOf(sheet);
    const every = sections.map(sectionOf).flatMap(name => [...named(name)]);
    const defined = classes(withoutComments(read(sheet))).filter(name => name !== 'nbdist');
    expect(defined.length).toBeGreaterThan(3);
    for (const name of defined)
      expect(section === 'parts' ? every : [...named(section), ...every]).toContain(name);
  });

  it('have the sizes of the theme', () => {
    const css = sheets.map(read).map(withoutComments).join('\n');
    const fixed = css.match(/[\w-]+(?:: calc\(var\([\w-]+)?, [1-9]\d*px|[1-9]\d*px/g);
    expect(fixed).toEqual([
      '--nbdist-px: calc(var(--jp-ui-font-size1, 13px',
      '--jp-border-width, 1px',
    ]);
  });
});
