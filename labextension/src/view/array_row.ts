/** One row of the list of arrays. */

import { element, setAttributes } from './element';
import {
  bytesText,
  otherMemoryKind,
  processesText,
  rangesText,
  shardingText,
  typeText,
} from './format';
import { divisionOf, type Division } from './pieces';
import type { Array as NamedArray, Mesh } from './snapshot';
import type { ArrayRow } from './tree_rows';
import { wholeWhy } from './whole';

/** A part of a spec as it is written: an axis in a box, or text between. */
export interface SpecPart {
  readonly text: string;
  readonly kind: 'axis' | 'sum' | 'text';
}

/** What is written about one array, so that widths can be worked out before anything is drawn. */
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

function copiesTitle(array: NamedArray, copies: string): string {
  if (copies.startsWith('Σ')) return 'partial sums, still to be added: not copies';
  if (array.sharding.kind === 'per_process') return 'each process has its own';
  return copies === '1' ? 'one copy' : `${copies.slice(1)} copies of each piece`;
}

/** The row in words, for screen readers. */
function labelOf({ array, alike }: ArrayRow, texts: ArrayTexts): string {
  const who = array.processes.length ? `, on ${processesText(array.processes)}` : '';
  const copies = copiesTitle(array, texts.copies);
  const parts = [
    array.path,
    typeText(array),
    shardingText(array),
    `${texts.bytes} a device`,
    copies,
  ];
  const kind = otherMemoryKind(array);
  const whole = texts.whole ? `, ${wholeTitle(texts.whole)}` : '';
  const others = alike > 1 ? `, one of ${alike} that are alike` : '';
  return parts.join(', ') + (kind ? `, in ${kind}` : '') + who + whole + others;
}

const wholeTitle = (why: string): string => `whole on every device of its mesh: ${why}`;

export interface RowState {
  readonly id: string;
  readonly name: string;
  readonly picked: boolean;
  readonly active: boolean;
  /** Pixels before the name. */
  readonly indent: number;
}

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
const breaksAfter = (part: SpecPart): boolean => part.kind === 'text' && /[ ×]$/.test(part.text);

export const specNode = (spec: readonly SpecPart[]): HTMLElement =>
  element(
    'span',
    'nbdist-spec',
    {},
    ...spec.flatMap(part => {
      if (part.kind !== 'text') {
        return [element('span', `nbdist-chip nbdist-chip-${part.kind}`, {}, part.text)];
      }
      return breaksAfter(part) ? [part.text, element('wbr')] : [part.text];
    }),
  );

/** Makes a row; its columns are placed by the style sheet, in one line or in several. */
export function arrayRow(
  listed: ArrayRow,
  texts: ArrayTexts,
  state: RowState,
  form: 'line' | 'stacked',
): HTMLElement {
  const { array } = listed;
  const who = texts.who
    ? [element('span', 'nbdist-only', { title: processesText(array.processes) }, texts.who)]
    : [];
  const whole = texts.whole
    ? [element('span', 'nbdist-unsplit', { title: wholeTitle(texts.whole) }, '!')]
    : [];
  const shortened = state.name !== array.path;
  const name = element('span', 'nbdist-name', { title: shortened ? array.path : null }, state.name);
  const shownCopies = form === 'line' ? texts.copies : texts.copiesWords;
  const title = copiesTitle(array, texts.copies);
  const copies = element('span', 'nbdist-copies', { title }, shownCopies);
  const row = element(
    'div',
    'nbdist-array',
    { role: 'treeitem', id: state.id },
    element('span', 'nbdist-array-name', {}, name, ...who, ...whole),
    element(
      'span',
      'nbdist-lies',
      {},
      element('span', 'nbdist-type', {}, texts.type),
      ' ',
      specNode(texts.spec),
    ),
    element('span', 'nbdist-bytes', {}, texts.bytes),
    copies,
  );
  row.style.setProperty('--indent', `${state.indent}px`);
  setAttributes(row, {
    'aria-selected': state.picked ? 'true' : 'false',
    'aria-level': listed.level,
    'aria-setsize': listed.count,
    'aria-posinset': listed.position + 1,
    'aria-label': labelOf(listed, texts),
    'data-active': state.active,
  });
  return row;
}
