/** The keys that open and close the branches of a tree. */

import type { BranchRow, ListRow, Shown } from '../../model/tree_rows';

/** The effect of a key: it moves to a row, or shows a branch in another form; null if there is none. */
export type Turn =
  { readonly to: number } | { readonly row: BranchRow; readonly shown: Shown } | null;

/**
 * Return the effect of Right or Left at row `at`; null if there is nothing to do.
 *
 * Right opens a branch. If the branch stands for several that are alike, the next Right shows each
 * of them. At last Right moves to the first row below. Left does the same backwards, and then moves
 * to the branch above.
 */
export function turned(key: string, rows: readonly ListRow[], at: number): Turn {
  const row = rows[at];
  if (!row) return null;
  if (key === 'ArrowRight') return row.kind === 'branch' ? further(row, at) : null;
  if (key !== 'ArrowLeft') return null;
  if (row.kind === 'branch' && row.shown !== 'closed') {
    return { row, shown: row.shown === 'each' ? 'open' : 'closed' };
  }
  return row.parent >= 0 ? { to: row.parent } : null;
}

function further(row: BranchRow, at: number): Turn {
  if (row.shown === 'closed') return { row, shown: 'open' };
  if (row.shown === 'open' && row.branch.alike.length) return { row, shown: 'each' };
  return { to: at + 1 };
}
