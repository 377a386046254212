/** One row of the list of arrays that shows a branch of a tree. */

import type { BranchTexts } from '../../model/branch_text';
import { countText } from '../../model/format';
import type { BranchRow, Shown } from '../../model/tree_rows';
import { element, setAttributes } from '../parts/element';

export interface BranchState {
  readonly id: string;
  readonly name: string;
  readonly active: boolean;
  /** Whether the branch is closed and holds the picked array. */
  readonly holds: boolean;
  /** Pixels before the arrow. */
  readonly indent: number;
  /** Whether the text about the branch stands beside its name; otherwise it has a line of its own. */
  readonly beside: boolean;
}

const badgeTitle = (count: number): string =>
  `${countText(count, 'large array is', 'large arrays are')} whole on every device of the mesh`;

const EACH: Readonly<Record<'one' | 'each', string>> = {
  one: 'Show each of them',
  each: 'Show one for all of them',
};

/** Make the text about a branch. If several are alike, a part of the text can be clicked to show each of them. */
function aboutNode(row: BranchRow, texts: BranchTexts): HTMLElement {
  const [alike, ...rest] = row.branch.alike.length ? texts.about.split(',') : [];
  if (alike === undefined) return element('span', 'nbdist-about', {}, texts.about);
  const attributes = { title: EACH[row.shown === 'each' ? 'each' : 'one'] };
  const part = element('span', 'nbdist-alike', attributes, alike);
  return element('span', 'nbdist-about', {}, part, `,${rest.join(',')}`);
}

/** Return the row in words, for screen readers. */
function labelOf(texts: BranchTexts, shown: Shown): string {
  const whole = texts.whole();
  const parts = [texts.path, texts.about, `${texts.bytes()} on the fullest device`];
  if (shown === 'each') parts.push('each shown');
  return [...parts, ...(whole ? [badgeTitle(whole)] : [])].join(', ');
}

export function branchRow(row: BranchRow, texts: BranchTexts, state: BranchState): HTMLElement {
  const title = state.name === texts.path ? null : texts.path;
  const name = element('span', 'nbdist-name', { title }, state.name);
  const whole = row.shown === 'closed' ? texts.whole() : 0;
  const badge = whole ? [element('span', 'nbdist-unsplit', { title: badgeTitle(whole) }, '!')] : [];
  const about = aboutNode(row, texts);
  const arrow = element('span', 'nbdist-arrow');
  const beside = state.beside ? [about] : [];
  const named = element('span', 'nbdist-array-name', {}, arrow, name, ...badge, ...beside);
  const needs = `what the fullest device needs of these arrays; one whole copy of each is ${texts.copy()}`;
  const bytes = element('span', 'nbdist-bytes', { title: needs }, texts.bytes());
  const attributes = { role: 'treeitem', id: state.id };
  const node = element('div', 'nbdist-array nbdist-branch', attributes, named, bytes);
  if (!state.beside) named.after(about);
  node.style.setProperty('--indent', `${state.indent}px`);
  setAttributes(node, {
    'aria-expanded': row.shown === 'closed' ? 'false' : 'true',
    'aria-level': row.level,
    'aria-setsize': row.count,
    'aria-posinset': row.position + 1,
    'aria-label': labelOf(texts, row.shown),
    'data-active': state.active,
    'data-holds': state.holds,
  });
  return node;
}
