import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import type { Holding } from '../src/view/model/pieces';
import type { Look } from '../src/view/paint/look';
import { WIDTH, paintIndices, rectanglesOf } from '../src/view/paint/picture';
import { FILL_COUNT, fillOf, rampAt, type Theme } from '../src/view/paint/piece_style';

type Color = readonly [number, number, number];

/** Return linear red, green and blue of `#rrggbb`. */
function linear(hex: string): Color {
  const part = (at: number): number => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [part(1), part(3), part(5)];
}

const luminance = ([r, g, b]: Color): number => 0.2126 * r + 0.7152 * g + 0.0722 * b;

/** Return the contrast ratio of two colours, as WCAG 2 defines it. */
function contrast(a: string, b: string): number {
  const [dark = 0, light = 0] = [luminance(linear(a)), luminance(linear(b))].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

/** Return the OKLab coordinates of a linear colour. */
function oklab([r, g, b]: Color): Color {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** Return the linear colour of `oklch(…)`, within the gamut of the screen. */
function ofRamp(css: string): Color {
  const [lightness = 0, chroma = 0, hue = 0] = css.match(/[\d.]+/g)?.map(Number) ?? [];
  const angle = (hue * Math.PI) / 180;
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const rgb = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const [red = 0, green = 0, blue = 0] = rgb.map(part => Math.min(1, Math.max(0, part)));
  return [red, green, blue];
}

/**
 * Matrices from a linear colour to how normal, protanopic and deuteranopic eyes see it (Machado
 * 2009, severity 1).
 */
const EYES: Readonly<Record<string, readonly Color[]>> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopic: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  deuteranopic: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
};

function seen(hex: string, eyes: readonly Color[]): Color {
  const color = linear(hex);
  const [r = 0, g = 0, b = 0] = eyes.map(row =>
    Math.max(0, row[0] * color[0] + row[1] * color[1] + row[2] * color[2]),
  );
  return oklab([r, g, b]);
}

/** The themes of JupyterLab with their text and their paper. */
const inks: readonly (readonly [Theme, string, string])[] = [
  ['light', '#212121', '#ffffff'],
  ['dark', '#e1e1e1', '#212121'],
];

const sheet = (section: string): string =>
  readFileSync(new URL(`../src/view/sections/${section}/${section}.css`, import.meta.url), 'utf-8');

/** Return a colour that the page's style sheet gives a name. */
function colour(name: string, theme: Theme): string {
  const [light = '', dark = ''] = sheet('page').split("[data-nbdist-theme='dark']");
  const found = new RegExp(`--nbdist-${name}: (#[0-9a-f]{6});`).exec(
    theme === 'dark' ? dark : light,
  );
  if (!found?.[1]) throw new Error(`no colour named ${name}`);
  return found[1];
}

/** Return a share of one colour on another. */
function mixed(ink: string, paper: string, share: number): string {
  const part = (hex: string, at: number): number => parseInt(hex.slice(at, at + 2), 16);
  const parts = [1, 3, 5].map(at => share * part(ink, at) + (1 - share) * part(paper, at));
  return `#${parts.map(value => Math.round(value).toString(16).padStart(2, '0')).join('')}`;
}

describe.each(inks)('warnings and what is said beside names, %s', (theme, ink, paper) => {
  it.each(['warn', 'bad'])('can be read on the page and on their own ground, %s', name => {
    for (const ground of [paper, colour(`${name}-paper`, theme)]) {
      expect(contrast(colour(name, theme), ground)).toBeGreaterThanOrEqual(4.5);
    }
  });

  it('can be read in the tree', () => {
    const mark = /\.nbdist-lists-unsplit \{[^}]*\}/.exec(sheet('lists'))?.[0];
    expect(mark).toContain('background: var(--nbdist-warn-paper);');
    expect(mark).toContain('color: var(--nbdist-warn);');
    expect(/\.nbdist-lists-about \{[^}]*\}/.exec(sheet('lists'))?.[0]).toContain('--nbdist-soft');
    const soft = /--nbdist-soft: color-mix\(in srgb, var\(--nbdist-ink\) (\d+)%/.exec(
      sheet('page'),
    );
    expect(contrast(mixed(ink, paper, Number(soft?.[1]) / 100), paper)).toBeGreaterThanOrEqual(4.5);
  });
});

describe.each(inks)('the fills of pieces, %s', (theme, ink) => {
  const fills = Array.from({ length: FILL_COUNT }, (_, i) => fillOf(i, FILL_COUNT, theme));

  it('can be written on', () => {
    for (const fill of fills) expect(contrast(fill, ink)).toBeGreaterThanOrEqual(4.5);
  });

  it('can be written on where they are a ramp', () => {
    const written = luminance(linear(ink));
    for (let i = 0; i <= 20; i++) {
      const [dark = 0, light = 0] = [written, luminance(ofRamp(rampAt(i / 20, theme)))].sort(
        (a, b) => a - b,
      );
      expect((light + 0.05) / (dark + 0.05)).toBeGreaterThanOrEqual(4.5);
    }
  });

  it('rise in lightness along a ramp, which eyes without hues see', () => {
    const shades = [0, 0.25, 0.5, 0.75, 1].map(part => luminance(ofRamp(rampAt(part, theme))));
    expect([...shades].sort((a, b) => a - b)).toEqual(shades);
    expect((shades[4] ?? 0) - (shades[0] ?? 0)).toBeGreaterThan(0.1);
  });

  it.each(Object.keys(EYES))('are apart for %s eyes', name => {
    // A just noticeable difference in OKLab is about 0.02.
    const colors = fills.map(fill => seen(fill, EYES[name] ?? []));
    for (const [i, a] of colors.entries()) {
      for (const b of colors.slice(i + 1)) {
        expect(Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2])).toBeGreaterThan(0.035);
      }
    }
  });
});

/** Return a vector cut into `count` pieces. */
function cut(count: number): Holding {
  const pieces = Array.from({ length: count }, (_, n) => ({
    slices: [[n, n + 1]] as const,
    devices: [`0:${n}`],
    addend: null,
  }));
  return { pieces, of: new Map(), addends: 1, own: false };
}

/** Return the texts that are written into the picture, in letters of 6 pixels. */
function written(holding: Holding): string[] {
  const texts: string[] = [];
  const context = {
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string) => texts.push(text),
  } as unknown as CanvasRenderingContext2D;
  const look = { mono: 'monospace', ink: '#000' } as Look;
  paintIndices(context, rectanglesOf(holding, 1), holding, 1, look);
  return texts;
}

describe('numbers in the little picture of an array', () => {
  it('stand in all pieces', () => {
    expect(written(cut(4))).toEqual(['0', '1', '2', '3']);
  });

  it('stand in none where the longest has no room', () => {
    // One digit fits into each piece, two digits do not.
    expect(WIDTH / 16 - 3).toBeGreaterThanOrEqual(6);
    expect(written(cut(16))).toEqual([]);
  });
});
