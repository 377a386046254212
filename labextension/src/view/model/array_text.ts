/** Texts about one array, so that widths can be computed before anything is drawn. */

import { LARGE_BYTES } from './contract';
import { bytesText, otherMemoryKind, rangesText, shardingText, specText, typeText } from './format';
import { divisionOf, type Division } from './pieces';
import type { Array as NamedArray, Mesh } from './snapshot';

/** A part of a spec as it is written: an axis in a box, or the text between boxes. */
export interface SpecPart {
  readonly text: string;
  readonly kind: 'axis' | 'sum' | 'text';
}

/** The texts of one row. */
export interface ArrayTexts {
  readonly type: string;
  readonly spec: readonly SpecPart[];
  readonly bytes: string;
  /** How many devices hold each shard: `2×`, or `—` for one alone. */
  readonly replicas: string;
  /** The replicas in words, for rows without a heading that explains the number; empty for none. */
  readonly replicasWords: string;
  /** The processes that have the array; empty if all do. */
  readonly who: string;
  /** `replicated (16 MB)` for a large array that is whole on each of several devices; else empty. */
  readonly badge: string;
  /** Why such an array is whole there; else null. */
  readonly whole: string | null;
}

const text = (value: string): SpecPart => ({ text: value, kind: 'text' });
const axis = (value: string): SpecPart => ({ text: value, kind: 'axis' });

/** Return the entries of a spec, `None, ('pod', 'data')`, with axes in boxes. */
function dimensionsParts(spec: readonly (readonly string[])[]): SpecPart[] {
  return spec.flatMap((names, d) => {
    const between = d ? [text(', ')] : [];
    if (names.length === 0) return [...between, text('None')];
    const axes = names.flatMap((name, i) => [...(i ? [text(', ')] : []), axis(`'${name}'`)]);
    return names.length > 1 ? [...between, text('('), ...axes, text(')')] : [...between, ...axes];
  });
}

/** Return `P('data', None)`, as JAX prints it, with the axes in boxes. */
export const entryParts = (spec: readonly (readonly string[])[]): SpecPart[] => [
  text('P('),
  ...dimensionsParts(spec),
  text(')'),
];

/** Return the axes that a layout asks for, one or none for each dimension, as a spec. */
export const axesParts = (axes: readonly (string | null)[]): SpecPart[] =>
  entryParts(axes.map(name => (name === null ? [] : [name])));

function specParts(array: NamedArray): SpecPart[] {
  const { sharding } = array;
  if (sharding.kind !== 'named') return [text(shardingText(array))];
  const { spec, unreduced } = sharding;
  if (!unreduced.length) return entryParts(spec);
  const sums = unreduced.flatMap((name, i): SpecPart[] => [
    ...(i ? [text(', ')] : []),
    { text: `'${name}'`, kind: 'sum' },
  ]);
  const before = spec.length ? ', ' : '';
  return [
    text('P('),
    ...dimensionsParts(spec),
    ...[text(before), text('unreduced={'), ...sums, text('})')],
  ];
}

function replicasText(array: NamedArray, division: Division | null): string {
  if (!division) return '?';
  if (array.sharding.kind === 'per_process') return 'own';
  const replicas = division.copies === 1 ? '—' : `${division.copies}×`;
  if (division.addends === 1) return replicas;
  return `Σ${division.addends}${division.copies > 1 ? ` ${replicas}` : ''}`;
}

function replicasWords(array: NamedArray, division: Division | null): string {
  if (!division) return 'mesh unknown';
  if (array.sharding.kind === 'per_process') return 'each its own';
  const replicas = division.copies === 1 ? '' : `${division.copies} replicas`;
  if (division.addends === 1) return replicas;
  return `${division.addends} sums${replicas && `, ${replicas}`}`;
}

export function textsOf(array: NamedArray, meshes: ReadonlyMap<string, Mesh>): ArrayTexts {
  const division = divisionOf(array, meshes);
  const kind = otherMemoryKind(array);
  const { processes } = array;
  const whole = wholeWhy(array, division);
  return {
    // Without spaces, so that more rows fit in one line.
    type: typeText(array).replaceAll(' ', ''),
    spec: [...specParts(array), ...(kind ? [text(` ${kind}`)] : [])],
    bytes: division ? bytesText(division.bytesPerDevice) : '?',
    replicas: replicasText(array, division),
    replicasWords: replicasWords(array, division),
    who: processes.length ? `p${rangesText(processes)}` : '',
    badge: whole === null ? '' : `replicated (${bytesText(array.nbytes)})`,
    whole,
  };
}

/** Width of the edges of a box, in characters. */
const BOX = 1.3;

const lengthOf = ({ text, kind }: SpecPart): number => text.length + (kind === 'text' ? 0 : BOX);

/** Return the width of a spec with its boxes, in characters. */
export const specLength = (spec: readonly SpecPart[]): number =>
  spec.reduce((sum, part) => sum + lengthOf(part), 0);

/** Return the lengths, in characters, of the parts of a row between which a line may break. */
export const wordLengths = (texts: ArrayTexts): number[] => [
  texts.type.length,
  ...specWords(texts.spec),
  ...(texts.badge ? [texts.badge.length + 1] : []),
  ...(texts.replicasWords ? [texts.replicasWords.length] : []),
];

/** Return the lengths, in characters, of the parts of a spec between which a line may break. */
export function specWords(spec: readonly SpecPart[]): number[] {
  const words: number[] = [];
  let word = 0;
  for (const part of spec) {
    word += lengthOf(part);
    if (!breaksAfter(part)) continue;
    words.push(word);
    word = 0;
  }
  return word ? [...words, word] : words;
}

/** Return whether a line may break after this part: a comma and a space. */
export const breaksAfter = (part: SpecPart): boolean =>
  part.kind === 'text' && part.text.endsWith(' ');

/** Return why a large array is whole on each of several devices; null for any other array. */
export function wholeWhy(array: NamedArray, division: Division | null): string | null {
  if (array.nbytes < LARGE_BYTES || array.sharding.kind === 'per_process') return null;
  if (!division || division.pieces > 1 || division.copies < 2) return null;
  return array.sharding.kind === 'named'
    ? `its spec is ${specText(array.sharding)}, which splits nothing`
    : 'JAX chose that: no sharding with a mesh was given';
}

/** The orders in which arrays can be listed; `tree` is that of their paths. */
export const ORDERS = {
  tree: 'as in your code',
  name: 'by name',
  bytes: 'by bytes',
  replicas: 'by replicas',
};

export type Order = keyof typeof ORDERS;

/** Return the arrays in an order: names rising, bytes per device and replicas falling. */
export function sorted(
  arrays: readonly NamedArray[],
  meshes: ReadonlyMap<string, Mesh>,
  order: Order,
): readonly NamedArray[] {
  if (order === 'tree') return arrays;
  if (order === 'name') return [...arrays].sort((a, b) => a.path.localeCompare(b.path, 'en'));
  const numbers = new Map(
    arrays.map(array => {
      const division = divisionOf(array, meshes);
      return [array, (order === 'bytes' ? division?.bytesPerDevice : division?.copies) ?? 0];
    }),
  );
  return [...arrays].sort((a, b) => (numbers.get(b) ?? 0) - (numbers.get(a) ?? 0));
}

/** Return the text that a search looks at: path, dtype, shape and spec. */
const searched = (array: NamedArray): string =>
  `${array.path} ${typeText(array)} ${array.dtype} ${shardingText(array)}`.toLowerCase();

/**
 * Return the arrays that contain every word of `query`, in their order; upper and lower case are
 * alike.
 *
 * Words are matched anywhere, so `dense kernel` finds `params.dense1.kernel`.
 */
export function findArrays(arrays: readonly NamedArray[], query: string): readonly NamedArray[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return arrays;
  return arrays.filter(array => {
    const text = searched(array);
    return words.every(word => text.includes(word));
  });
}
