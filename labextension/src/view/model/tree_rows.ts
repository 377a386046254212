/** Rows of the list of arrays: which branches are open, the rows that makes, and what those of branches say. */

import type { ArrayTexts } from './array_text';
import { fullest, leavesOf, type Branch } from './branches';
import { bytesText, countText } from './format';
import { remember } from './scene';
import type { Array as NamedArray, Mesh } from './snapshot';

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

/** Most rows with which all branches are open at first. */
const MOST_ROWS = 40;

/** The form in which each branch is shown, by its key. */
export type BranchStates = ReadonlyMap<string, Shown>;

/** Return a function from a branch to how `states` show it; branches that are missing there are closed. */
export const shownIn =
  (states: BranchStates) =>
  (branch: Branch): Shown => {
    const shown = states.get(keyOfBranch(branch)) ?? 'closed';
    // Branches that were alike may differ by now.
    return shown === 'each' && branch.alike.length === 0 ? 'open' : shown;
  };

/** The states of branches by path, so that what a person opened or closed stays while snapshots come. */
export class OpenBranches {
  /** A new map after each change. */
  states: BranchStates = new Map();

  of(branch: Branch): Shown {
    return shownIn(this.states)(branch);
  }

  set(branch: Branch, shown: Shown): void {
    if (this.of(branch) === shown) return;
    this.states = new Map(this.states).set(keyOfBranch(branch), shown);
  }

  /**
   * Decide how branches are shown that are met for the first time.
   *
   * All are open if that makes few rows (`MOST_ROWS`); else only the outermost branches whose rows
   * still fit.
   */
  settle(roots: readonly Branch[]): void {
    const fresh = new Set(roots.flatMap(root => this.unknown(root)));
    if (fresh.size === 0) return;
    const all = this.with(fresh, 'open');
    if (treeRows(roots, shownIn(all)).length <= MOST_ROWS) {
      this.states = all;
      return;
    }
    this.states = this.with(fresh, 'closed');
    let rows = treeRows(roots, shownIn(this.states)).length;
    for (const root of roots.filter(one => fresh.has(one))) {
      const opened = treeRows([root], branch => (branch === root ? 'open' : this.of(branch)));
      // A closed branch has a row of its own, and one for each array of the same path.
      const more = opened.length - root.arrays.length - 1;
      if (rows + more > MOST_ROWS) continue;
      rows += more;
      this.states = this.with([root], 'open');
    }
  }

  /** Open all branches above an array. */
  reveal(roots: readonly Branch[], array: NamedArray): void {
    const branch = roots.find(root => leavesOf(root).includes(array));
    if (!branch || branch.branches.length === 0) return;
    const number = branch.alike.findIndex(one => leavesOf(one).includes(array));
    if (number > 0) this.set(branch, 'each');
    else if (this.of(branch) === 'closed') this.set(branch, 'open');
    this.reveal(this.of(branch) === 'each' ? branch.alike : branch.branches, array);
  }

  private with(branches: Iterable<Branch>, shown: Shown): BranchStates {
    return new Map([
      ...this.states,
      ...[...branches].map(branch => [keyOfBranch(branch), shown] as const),
    ]);
  }

  private unknown(branch: Branch): Branch[] {
    if (branch.branches.length === 0) return [];
    const below = branch.branches.flatMap(one => this.unknown(one));
    return this.states.has(keyOfBranch(branch)) ? below : [branch, ...below];
  }
}

/** The texts of one row. */
export interface BranchTexts {
  /** The whole expression, `model.blocks[0–11]`. */
  readonly path: string;
  /** The number of arrays, `3 arrays`; `×12 identical` for a branch that stands for several. */
  readonly about: string;
  /** The same in words: `12 identical, 3 arrays each`. */
  readonly aboutWords: string;
  /** Characters that the text takes, with its button. */
  readonly aboutWidth: number;
  /** Most characters that the bytes of any branch take. */
  readonly mostBytes: number;
  /** Return the bytes that the fullest device needs; computed only for rows that are drawn. */
  bytes(): string;
  /** Return the bytes of the arrays, each counted once. */
  once(): string;
  /** Return how many arrays of the branch are large and whole everywhere. */
  whole(): number;
}

const MOST_BYTES = '1023 GB'.length;

function pathOf({ path, name, alike }: Branch): string {
  const [first] = alike;
  return first ? path.slice(0, -first.name.length) + name : path;
}

/** The buttons beside branches that stand for several. */
export const SHOW_ALL = '▸ show all';
export const SHOW_ONE = '▾ show one';

const aboutOf = ({ count, alike }: Branch): string =>
  alike.length ? `×${alike.length} identical` : countText(count, 'array');

function aboutWords({ count, alike }: Branch): string {
  if (alike.length === 0) return countText(count, 'array');
  return `${alike.length} identical, ${countText(count / alike.length, 'array')} each`;
}

/**
 * Return a function from rows to their texts, which computes each text once.
 *
 * If arrays were `omitted` from the snapshot, all totals are lower bounds.
 */
export function branchTextsMaker(
  meshes: ReadonlyMap<string, Mesh>,
  textOf: ReadonlyMap<NamedArray, ArrayTexts>,
  omitted: number,
): (row: BranchRow) => BranchTexts {
  const made = new Map<Branch, BranchTexts>();
  const least = omitted ? '≥ ' : '';
  const badgeWidth = [...textOf.values()].some(texts => texts.whole) ? '999 replicated '.length : 0;
  return ({ branch }) => {
    const known = made.get(branch);
    if (known) return known;
    const texts: BranchTexts = {
      path: pathOf(branch),
      about: aboutOf(branch),
      aboutWords: aboutWords(branch),
      aboutWidth:
        aboutOf(branch).length + (branch.alike.length ? SHOW_ALL.length + 4 : 0) + badgeWidth,
      mostBytes: MOST_BYTES + least.length,
      bytes: remember(() => {
        const bytes = fullest(leavesOf(branch), meshes);
        return bytes === null ? '?' : least + bytesText(bytes);
      }),
      once: remember(
        () => least + bytesText(leavesOf(branch).reduce((sum, { nbytes }) => sum + nbytes, 0)),
      ),
      whole: remember(() => leavesOf(branch).filter(array => textOf.get(array)?.whole).length),
    };
    made.set(branch, texts);
    return texts;
  };
}
