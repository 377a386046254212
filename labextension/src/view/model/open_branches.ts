/** Open and closed branches of the trees. */

import { leavesOf, type Branch } from './branches';
import type { Array as NamedArray } from './snapshot';
import { keyOfBranch, treeRows, type Shown } from './tree_rows';

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
