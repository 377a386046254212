/** Rows of the list of arrays: those of trees with open and closed branches, or of a search. */

import type { Branch } from './branches';
import type { Array as NamedArray } from './snapshot';

/** The form in which a branch is shown; `each` shows branches that are alike one by one. */
export type Shown = 'closed' | 'open' | 'each';

interface Place {
  readonly key: string;
  /** Level in the tree; 1 for the outermost. */
  readonly level: number;
  /** Position among the `count` rows of the same parent, from 0. */
  readonly position: number;
  readonly count: number;
  /** Index of the row of the branch above; -1 if there is none. */
  readonly parent: number;
}

export interface ArrayRow extends Place {
  readonly kind: 'array';
  readonly array: NamedArray;
  readonly name: string;
  /** Number of arrays that the row stands for, its own included. */
  readonly alike: number;
}

export interface BranchRow extends Place {
  readonly kind: 'branch';
  readonly branch: Branch;
  readonly name: string;
  readonly shown: Shown;
}

export type ListRow = ArrayRow | BranchRow;

export const keyOfArray = ({ path, processes }: NamedArray): string =>
  `${path} ${processes.join()}`;

/**
 * Return the key of a branch.
 *
 * A branch that stands for several has the path of the first, which needs a key of its own.
 */
export const keyOfBranch = ({ path, alike }: Branch): string => (alike.length ? `${path}…` : path);

/** The subject of one row: a branch, or an array of it. */
interface Item {
  readonly branch: Branch;
  readonly array: NamedArray | null;
}

/** Return the items of branches next to each other: their own arrays, and the branches that have more below. */
function itemsOf(branches: readonly Branch[]): Item[] {
  const items: Item[] = [];
  for (const branch of branches) {
    if (!branch.alike.length) for (const array of branch.arrays) items.push({ branch, array });
    if (branch.branches.length) items.push({ branch, array: null });
  }
  return items;
}

function itemsBelow({ branches, alike }: Branch, shown: Shown): Item[] {
  if (shown === 'closed') return [];
  if (shown === 'each') return itemsOf(alike);
  const [first] = alike;
  const own = first?.arrays.map(array => ({ branch: first, array })) ?? [];
  return [...own, ...itemsOf(branches)];
}

/** Return the rows of trees, each branch shown as `shownOf` says. */
export function treeRows(
  roots: readonly Branch[],
  shownOf: (branch: Branch) => Shown,
): readonly ListRow[] {
  const rows: ListRow[] = [];
  const add = (items: readonly Item[], level: number, parent: number, times: number): void => {
    const count = items.length;
    items.forEach(({ branch, array }, position) => {
      const { name } = branch;
      if (array) {
        const key = keyOfArray(array);
        rows.push({
          kind: 'array',
          array,
          name,
          key,
          level,
          position,
          count,
          parent,
          alike: times,
        });
        return;
      }
      const shown = shownOf(branch);
      const key = keyOfBranch(branch);
      rows.push({ kind: 'branch', branch, name, key, level, position, count, parent, shown });
      const each = shown === 'open' && branch.alike.length ? branch.alike.length : 1;
      add(itemsBelow(branch, shown), level + 1, rows.length - 1, times * each);
    });
  };
  add(itemsOf(roots), 1, -1, 1);
  return rows;
}

/** Return rows of arrays alone, under their whole paths. */
export const flatRows = (arrays: readonly NamedArray[]): readonly ListRow[] =>
  arrays.map((array, position) => ({
    kind: 'array',
    array,
    name: array.path,
    key: keyOfArray(array),
    level: 1,
    position,
    count: arrays.length,
    parent: -1,
    alike: 1,
  }));
