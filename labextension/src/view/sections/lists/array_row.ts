/** One row of the list of arrays. */

import { breaksAfter, type ArrayTexts, type SpecPart } from '../../model/array_text';
import { otherMemoryKind, processesText, shardingText, typeText } from '../../model/format';
import type { Array as NamedArray } from '../../model/snapshot';
import type { ArrayRow } from '../../model/tree_rows';
import { element, setAttributes } from '../parts/element';

function copiesTitle(array: NamedArray, copies: string): string {
  if (copies.startsWith('Σ')) return 'partial sums, still to be added: not copies';
  if (array.sharding.kind === 'per_process') return 'each process has its own';
  return copies === '1' ? 'one copy' : `${copies.slice(1)} copies of each piece`;
}

/** Return the row in words, for screen readers. */
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

/** Make a row; the style sheet places its columns, in one line or in several. */
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
