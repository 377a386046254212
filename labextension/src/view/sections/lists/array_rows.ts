/** The rows of the list of arrays: each an array, or a branch of a tree. */

import type { ArrayTexts } from '../../model/array_text';
import { countText, otherMemoryKind, processesText } from '../../model/format';
import type { Array as NamedArray } from '../../model/snapshot';
import {
  SHOW_ALL,
  SHOW_ONE,
  type ArrayRow,
  type BranchRow,
  type BranchTexts,
  type ListRow,
  type Shown,
} from '../../model/tree_rows';
import { px } from '../../paint/look';
import { breakable, elementsIn, setAttributes, specNode, type Child } from '../parts/parts';

const h = elementsIn('lists');

/** What any row shows of the list's state. */
export interface RowState {
  readonly id: string;
  /** Whether the keyboard is at the row. */
  readonly active: boolean;
  /** Pixels of the theme before the name, or before the arrow of a branch. */
  readonly indent: number;
}

/** Make a name, which may take several lines; the whole path can be read by pointing at it. */
export const nameNode = (name: string, path: string): HTMLElement =>
  h('span.name', { title: name === path ? null : path }, breakable(name));

const afterSpace = (node: Child): Child[] => (node ? [' ', node] : []);

const badgeNode = (text: string, title: string): HTMLElement => h('span.unsplit', { title }, text);

/** Make a row. Its name is its text; `description` says the rest, for screen readers. */
function rowNode(
  row: ListRow,
  state: RowState,
  description: string,
  ...columns: Child[]
): HTMLElement {
  const spaced = columns.flatMap(column => [column, ' ']);
  const node = h('div.row', { role: 'treeitem', id: state.id }, spaced);
  node.style.setProperty('--indent', px(state.indent));
  setAttributes(node, {
    'aria-level': row.level,
    'aria-setsize': row.count,
    'aria-posinset': row.position + 1,
    'aria-description': description,
    'data-active': state.active,
  });
  return node;
}

function replicasTitle(array: NamedArray, replicas: string): string {
  if (replicas.startsWith('Σ')) return 'partial sums, still to be added: not replicas';
  if (array.sharding.kind === 'per_process') return 'each process has its own';
  return replicas === '—' ? 'not replicated' : `${replicas.slice(0, -1)} replicas of each shard`;
}

/** Return what the text of the row says in signs, or not at all. */
function arrayDescription({ array, alike }: ArrayRow, texts: ArrayTexts): string {
  const who = array.processes.length ? `, on ${processesText(array.processes)}` : '';
  const replicas = replicasTitle(array, texts.replicas);
  const bytes = `${texts.bytes} per device`;
  const parts = [array.path, bytes, replicas];
  const kind = otherMemoryKind(array);
  const whole = texts.whole ? `, ${wholeTitle(texts.whole)}` : '';
  const others = alike > 1 ? `, one of ${alike} identical ones` : '';
  return parts.join(', ') + (kind ? `, in ${kind}` : '') + who + whole + others;
}

const wholeTitle = (why: string): string => `replicated on every device of its mesh: ${why}`;

/** Make the row of an array; the style sheet places its columns, in one line or in several. */
export function arrayRow(
  row: ArrayRow,
  texts: ArrayTexts,
  state: RowState & { readonly picked: boolean },
  form: 'line' | 'stacked',
): HTMLElement {
  const { path, processes } = row.array;
  const who = texts.who && h('span+badge', { title: processesText(processes) }, texts.who);
  const whole = texts.whole !== null && badgeNode(texts.badge, wholeTitle(texts.whole));
  const title = replicasTitle(row.array, texts.replicas);
  const inLine = form === 'line';
  const replicas = texts.replicasWords && h('span.words', { title }, texts.replicasWords);
  const also = [whole, replicas].flatMap(afterSpace);
  const node = rowNode(
    row,
    state,
    arrayDescription(row, texts),
    h('span.path', nameNode(row.name, path), [who, inLine && whole].flatMap(afterSpace)),
    h('span.lies', h('span.type', texts.type), ' ', specNode(texts.spec), !inLine && also),
    h('span.bytes', texts.bytes),
    inLine && h('span.replicas', { title }, texts.replicas),
  );
  setAttributes(node, { 'aria-selected': String(state.picked) });
  return node;
}

const badgeTitle = (count: number): string =>
  `${countText(count, 'large array is', 'large arrays are')} replicated on every device of the mesh`;

/** Make the text about a branch, with a button that shows all of several identical ones. */
function aboutNode(row: BranchRow, texts: BranchTexts, show: (shown: Shown) => void): HTMLElement {
  const title = texts.aboutWords;
  if (!row.branch.alike.length) return h('span.about', texts.about);
  const each = row.shown === 'each';
  const part = h('span.show-all', each ? SHOW_ONE : SHOW_ALL);
  part.addEventListener('click', event => {
    event.stopPropagation();
    show(each ? 'open' : 'each');
  });
  return h('span.about', { title }, texts.about, ' ', part);
}

/** Return what the text of the row says in signs, or not at all. */
function branchDescription(texts: BranchTexts, shown: Shown): string {
  const whole = texts.whole();
  const parts = [texts.path, texts.aboutWords, `${texts.bytes()} per device`];
  if (shown === 'each') parts.push('all shown');
  return [...parts, ...(whole ? [badgeTitle(whole)] : [])].join(', ');
}

/** What the row of a branch shows beside that. */
export interface BranchState extends RowState {
  /** Whether the branch is closed and holds the picked array. */
  readonly holds: boolean;
  /** Whether the text about the branch stands beside its name; otherwise it has a line of its own. */
  readonly beside: boolean;
}

/** Make the row of a branch; `show` is called if a click on a part of it shows the branch in another form. */
export function branchRow(
  row: BranchRow,
  texts: BranchTexts,
  state: BranchState,
  show: (shown: Shown) => void,
): HTMLElement {
  const whole = row.shown === 'closed' ? texts.whole() : 0;
  const badge = whole > 0 && badgeNode(`${whole} replicated`, badgeTitle(whole));
  const about = aboutNode(row, texts, show);
  if (badge) about.append(' ', badge);
  const name = nameNode(row.name, texts.path);
  const title = `on the fullest device; each array counted once: ${texts.once()}`;
  const node = rowNode(
    row,
    state,
    branchDescription(texts, row.shown),
    h('span.path', h('span.arrow'), name, state.beside && [' ', about]),
    !state.beside && about,
    h('span.bytes', { title }, texts.bytes()),
  );
  setAttributes(node, {
    'aria-expanded': String(row.shown !== 'closed'),
    'data-holds': state.holds,
  });
  return node;
}
