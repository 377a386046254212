import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const VIEW = fileURLToPath(new URL('../src/view/', import.meta.url));

test('every style sheet of the view is imported once', () => {
  const files = readdirSync(VIEW, { recursive: true, encoding: 'utf-8' });
  const sheets = files
    .filter(name => name.endsWith('.css') && name !== 'view.css')
    .map(name => name.replaceAll('\\', '/'));
  const imports = readFileSync(`${VIEW}view.css`, 'utf-8').matchAll(/@import url\('\.\/(.*)'\);/g);
  expect([...imports].map(([, name]) => name).sort()).toEqual(sheets.sort());
});
