/** What is written about one array, so that widths can be worked out before anything is drawn. */

import { bytesText, otherMemoryKind, rangesText, shardingText, typeText } from './format';
import { divisionOf, type Division } from './pieces';
import type { Array as NamedArray, Mesh } from './snapshot';
import { wholeWhy } from './whole';

/** A part of a spec as it is written: an axis in a box, or text between. */
export interface SpecPart {
  readonly text: string;
  readonly kind: 'axis' | 'sum' | 'text';
}

/** The texts of one row. */
export interface ArrayTexts {
  readonly type: string;
  readonly spec: readonly SpecPart[];
  readonly bytes: string;
  readonly copies: string;
  /** The copies in words, for where no heading says what the number is. */
  readonly copiesWords: string;
  /** Which processes have it, where not all do. */
  readonly who: string;
  /** Why it is whole on each of several devices, where it is large. */
  readonly whole: string | null;
}

const text = (value: string): SpecPart => ({ text: value, kind: 'text' });
const axis = (value: string): SpecPart => ({ text: value, kind: 'axis' });

/** `(data, ·)` with axes in boxes; several axes of a dimension are joined by ×. */
export function entryParts(spec: readonly (readonly string[])[]): SpecPart[] {
  const parts: SpecPart[] = [text('(')];
  spec.forEach((names, d) => {
    if (d) parts.push(text(', '));
    if (names.length === 0) parts.push(text('·'));
    names.forEach((name, i) => {
      if (i) parts.push(text('×'));
      parts.push(axis(name));
    });
  });
  return [...parts, text(')')];
}

function specParts(array: NamedArray): SpecPart[] {
  const { sharding } = array;
  if (sharding.kind !== 'named') return [text(shardingText(array))];
  const parts = entryParts(sharding.spec);
  if (sharding.unreduced.length) {
    parts.push(text(' sum over '));
    sharding.unreduced.forEach((name, i) => {
      if (i) parts.push(text(' '));
      parts.push({ text: name, kind: 'sum' });
    });
  }
  return parts;
}

function copiesText(array: NamedArray, division: Division | null): string {
  if (!division) return '?';
  if (array.sharding.kind === 'per_process') return 'own';
  const copies = division.copies === 1 ? '1' : `×${division.copies}`;
  return division.addends > 1
    ? `Σ${division.addends}${division.copies > 1 ? ` ${copies}` : ''}`
    : copies;
}

function copiesWords(array: NamedArray, division: Division | null): string {
  if (!division) return 'mesh unknown';
  if (array.sharding.kind === 'per_process') return 'its own each';
  const copies = division.copies === 1 ? '1 copy' : `${division.copies} copies`;
  if (division.addends === 1) return copies;
  return `sum of ${division.addends}${division.copies > 1 ? `, ${copies}` : ''}`;
}

export function textsOf(array: NamedArray, meshes: ReadonlyMap<string, Mesh>): ArrayTexts {
  const division = divisionOf(array, meshes);
  const kind = otherMemoryKind(array);
  const { processes } = array;
  return {
    // Without spaces, so that more rows fit in one line.
    type: typeText(array).replaceAll(' ', ''),
    spec: [...specParts(array), ...(kind ? [text(` ${kind}`)] : [])],
    bytes: division ? bytesText(division.bytesPerDevice) : '?',
    copies: copiesText(array, division),
    copiesWords: copiesWords(array, division),
    who: processes.length ? `p${rangesText(processes)}` : '',
    whole: wholeWhy(array, division),
  };
}

/** Characters that the edges of a box take. */
const BOX = 1.3;

/** Characters a spec takes, with its boxes. */
export const specLength = (spec: readonly SpecPart[]): number =>
  spec.reduce((sum, part) => sum + part.text.length + (part.kind === 'text' ? 0 : BOX), 0);

/** Lengths of the parts of a row that a line may break between, in characters. */
export const wordLengths = (texts: ArrayTexts): number[] => [
  texts.type.length,
  ...specWords(texts.spec),
];

/** The same of a spec alone. */
export function specWords(spec: readonly SpecPart[]): number[] {
  const words: number[] = [];
  let word = 0;
  for (const part of spec) {
    word += part.text.length + (part.kind === 'text' ? 0 : BOX);
    if (!breaksAfter(part)) continue;
    words.push(word);
    word = 0;
  }
  return word ? [...words, word] : words;
}

/** A spec may be broken after a comma, a space, or the sign between axes of one dimension. */
export const breaksAfter = (part: SpecPart): boolean =>
  part.kind === 'text' && /[ ×]$/.test(part.text);
