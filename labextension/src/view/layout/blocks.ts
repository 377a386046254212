/**
 * A grid of one to five axes in two dimensions, and the keys that lead through it: the last axis runs
 * across, the one before it runs down, and the axes before those two count blocks.
 */

import type { Grid } from '../model/grid';
import { placeIn } from '../model/lists';

/** One block of cells. `cells` holds positions in `Grid.devices`, row-major; -1 for an empty cell. */
export interface Block {
  /** The block's place along the leading axes: `pod 0 · data 1`; empty for a single block. */
  readonly label: string;
  readonly rows: number;
  readonly columns: number;
  readonly cells: readonly number[];
  readonly rowLabels: readonly string[];
  /** Empty if a row is folded, since a column then has no meaning. */
  readonly columnLabels: readonly string[];
}

type Axes = Grid['axes'];

/** Return the names of the axes that run down and across; `down` is null if the grid has only one axis. */
export function planeOf(axes: Axes): { readonly down: string | null; readonly across: string } {
  const across = axes[axes.length - 1];
  const down = axes.length > 1 ? axes[axes.length - 2] : undefined;
  return { down: down?.name ?? null, across: across?.name ?? '' };
}

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/** Return the numbers of rows and columns in one block, and the number of blocks. */
export function planeSize(grid: Grid): { rows: number; columns: number; blocks: number } {
  const columns = grid.axes[grid.axes.length - 1]?.size ?? 1;
  const rows = grid.axes.length > 1 ? (grid.axes[grid.axes.length - 2]?.size ?? 1) : 1;
  const blocks = Math.max(1, Math.round(grid.devices.length / Math.max(1, rows * columns)));
  return { rows, columns, blocks };
}

function blockLabel(axes: Axes, block: number): string {
  const leading = axes.slice(0, -2);
  const place = placeIn(
    leading.map(axis => axis.size),
    block,
  );
  // An axis of size 1 does not tell blocks apart.
  const parts = leading.map(({ name, size }, i) => (size > 1 ? `${name} ${place[i] ?? 0}` : ''));
  return parts.filter(Boolean).join(' · ');
}

/** Return the label of every block; one empty label if there is a single block. */
export const blockLabels = (grid: Grid): readonly string[] =>
  range(planeSize(grid).blocks).map(number => blockLabel(grid.axes, number));

function plainBlock(grid: Grid, number: number, turned: boolean): Block {
  const { rows, columns } = planeSize(grid);
  const { down, across } = planeOf(grid.axes);
  const first = number * rows * columns;
  const rowLabels = down === null ? [''] : range(rows).map(i => `${down} ${i}`);
  const columnLabels = range(columns).map(i => `${across} ${i}`);
  const label = blockLabel(grid.axes, number);
  if (!turned) {
    const cells = range(rows * columns).map(i => first + i);
    return { label, rows, columns, cells, rowLabels, columnLabels };
  }
  const cells = range(rows * columns).map(i => first + (i % rows) * columns + Math.floor(i / rows));
  return {
    label,
    rows: columns,
    columns: rows,
    cells,
    rowLabels: columnLabels,
    columnLabels: rowLabels,
  };
}

/** Return a block whose single row of cells is folded into lines of `perLine` cells. */
function foldedBlock(grid: Grid, number: number, perLine: number): Block {
  const { columns } = planeSize(grid);
  const { across } = planeOf(grid.axes);
  const lines = Math.ceil(columns / perLine);
  const first = number * columns;
  const cells = range(lines * perLine).map(i => (i < columns ? first + i : -1));
  const rowLabels = range(lines).map(line => {
    const last = Math.min(columns, (line + 1) * perLine) - 1;
    const from = line * perLine;
    return last > from ? `${across} ${from}–${last}` : `${across} ${from}`;
  });
  const label = blockLabel(grid.axes, number);
  return { label, rows: lines, columns: perLine, cells, rowLabels, columnLabels: [] };
}

export type Fold =
  { readonly kind: 'plain' | 'turned' } | { readonly kind: 'folded'; readonly perLine: number };

/** Return all blocks of a grid. The fold `folded` is only for grids with one row. */
export function blocksOf(grid: Grid, fold: Fold): readonly Block[] {
  return range(planeSize(grid).blocks).map(number =>
    fold.kind === 'folded'
      ? foldedBlock(grid, number, fold.perLine)
      : plainBlock(grid, number, fold.kind === 'turned'),
  );
}

/** The place of a cell in a list of blocks. */
export interface Place {
  readonly block: number;
  readonly row: number;
  readonly column: number;
}

/** Return the place of each position of the grid. */
export function placesOf(blocks: readonly Block[]): ReadonlyMap<number, Place> {
  const places = new Map<number, Place>();
  blocks.forEach((block, b) => {
    block.cells.forEach((position, i) => {
      if (position < 0) return;
      places.set(position, {
        block: b,
        row: Math.floor(i / block.columns),
        column: i % block.columns,
      });
    });
  });
  return places;
}

/** Return the position at a place; null outside the blocks and at an empty cell. */
export function positionAt(blocks: readonly Block[], place: Place): number | null {
  const block = blocks[place.block];
  if (!block || place.row < 0 || place.column < 0) return null;
  if (place.row >= block.rows || place.column >= block.columns) return null;
  const position = block.cells[place.row * block.columns + place.column] ?? -1;
  return position < 0 ? null : position;
}

/** The keys that lead to a neighbour, with the blocks, rows and columns that they move by. */
const STEPS: Readonly<Record<string, readonly [block: number, row: number, column: number]>> = {
  ArrowRight: [0, 0, 1],
  ArrowLeft: [0, 0, -1],
  ArrowDown: [0, 1, 0],
  ArrowUp: [0, -1, 0],
  PageDown: [1, 0, 0],
  PageUp: [-1, 0, 0],
};

/** Keys that move over a mesh. */
export const MOVES: ReadonlySet<string> = new Set([...Object.keys(STEPS), 'Home', 'End']);

/** Return the place of the last cell in a row that has a device. */
function lastIn(blocks: readonly Block[], block: number, row: number): Place {
  const { columns = 1, cells = [] } = blocks[block] ?? {};
  let column = columns - 1;
  while (column > 0 && (cells[row * columns + column] ?? -1) < 0) column -= 1;
  return { block, row, column };
}

/** Return the place to which a key leads, which may be outside the blocks; null for other keys. */
function aim(blocks: readonly Block[], at: Place, key: string, control: boolean): Place | null {
  const step = STEPS[key];
  if (step) {
    const [block, row, column] = step;
    return { block: at.block + block, row: at.row + row, column: at.column + column };
  }
  if (key === 'Home') return control ? { block: 0, row: 0, column: 0 } : { ...at, column: 0 };
  if (key !== 'End') return null;
  if (!control) return lastIn(blocks, at.block, at.row);
  const last = blocks.length - 1;
  return lastIn(blocks, last, (blocks[last]?.rows ?? 1) - 1);
}

/**
 * Return the position a key leads to.
 *
 * Arrows move along rows and columns, Page Up and Page Down to the same place of the block before
 * or after, Home and End to the ends of the row, with Control to the first and the last place of
 * all.
 *
 * Stays where it is at an edge. With no position yet, any of these keys leads to the first.
 */
export function moved(
  blocks: readonly Block[],
  position: number | null,
  key: string,
  control: boolean,
): number | null {
  const at = position === null ? undefined : placesOf(blocks).get(position);
  if (!at) return positionAt(blocks, { block: 0, row: 0, column: 0 });
  const target = aim(blocks, at, key, control);
  return (target && positionAt(blocks, target)) ?? position;
}
