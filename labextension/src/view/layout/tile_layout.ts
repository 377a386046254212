/** Layout of the cells of a large mesh: as many pixels a cell as fit, with rows folded if they are too long. */

import type { Grid } from '../model/grid';
import { blockLabels, blocksOf, planeOf, planeSize, type Block } from './blocks';

/** Smallest side of a cell, in CSS pixels; if cells would be smaller, hosts are drawn instead of devices. */
export const SMALLEST = 5;
/** Smallest side of a cell on a torus: smaller, since hosts in a row would not show the shape of the torus. */
export const SMALLEST_ON_TORUS = 4;
const LARGEST = 40;
const SMALLEST_HOST = 3;

export interface Label {
  readonly text: string;
  readonly x: number;
  /** The middle of the line of text. */
  readonly y: number;
  readonly align: 'left' | 'right' | 'center';
}

/** A line from the edge of a cell outwards. */
export interface Stub {
  readonly x: number;
  readonly y: number;
  readonly dx: number;
  readonly dy: number;
}

/** Positions in CSS pixels. `x[i]` and `y[i]` are the upper left corner of grid position i. */
export interface TileLayout {
  readonly side: number;
  readonly width: number;
  readonly height: number;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly labels: readonly Label[];
  readonly blocks: readonly Block[];
  /** Links of a torus from the last chip to the first, as stubs at both ends. */
  readonly wraps: readonly Stub[];
  /** The folding of rows and numbering of blocks in words; empty if there is nothing to say. */
  readonly folding: string;
}

export interface Room {
  readonly width: number;
  readonly height: number;
  /** Width in pixels of one character of a label. */
  readonly character: number;
}

const LINE = 18;
const GAP = 10;
/** Room around a block of a torus, for the links that wrap around. */
const MARGIN = 5;

/** The layout of all blocks for one side length of a cell. */
interface Plan {
  readonly side: number;
  /** One label for each block. */
  readonly labels: readonly string[];
  /** Lines that one row takes; more than 1 if the row is wider than the room. */
  readonly linesPerRow: number;
  /** Number of columns of blocks, or of parts of one tall block. */
  readonly groups: number;
  readonly rowsPerGroup: number;
  readonly margin: number;
  readonly left: number;
  readonly top: number;
  readonly groupWidth: number;
  readonly groupHeight: number;
}

/** Return a label without the names of its axes, for names that are too long: `pod 0 · data 1` → `0 · 1`. */
const numbersOnly = (label: string): string =>
  label
    .split(' · ')
    .map(part => part.slice(part.lastIndexOf(' ') + 1))
    .join(' · ');

const longestOf = (texts: readonly string[]): number =>
  texts.reduce((most, text) => Math.max(most, text.length), 0);

/** Return the plan with cells of `side` and `labels` for the blocks; null if it does not fit. */
function planWith(grid: Grid, room: Room, side: number, labels: readonly string[]): Plan | null {
  const { rows, columns, blocks } = planeSize(grid);
  const { down } = planeOf(grid.axes);
  const labelled = side >= 12 && down !== null;
  const longest = down === null ? 0 : down.length + 1 + String(rows - 1).length;
  const margin = grid.torus ? MARGIN : 0;
  const left = (labelled ? Math.ceil(longest * room.character) + 8 : 0) + margin;
  const perLine = Math.floor((room.width - left - margin) / side);
  if (perLine < 1) return null;
  const linesPerRow = Math.ceil(columns / perLine);
  const columnLine = side >= 12 && linesPerRow === 1 && rows > 1 ? LINE : 0;
  const top = (blocks > 1 ? LINE : 0) + columnLine + margin;
  const longestLabel = longestOf(labels) * room.character;
  if (longestLabel > room.width) return null;
  const groupWidth = Math.max(left + Math.min(columns, perLine) * side + margin, longestLabel);
  const most = Math.max(1, Math.floor((room.width + GAP) / (groupWidth + GAP)));
  const lineHeight = linesPerRow * side + (linesPerRow > 1 ? 3 : 0);
  const heightOf = (groups: number): number =>
    blocks > 1
      ? Math.ceil(blocks / groups) * (top + rows * lineHeight + margin + GAP)
      : top + Math.ceil(rows / groups) * lineHeight + margin;
  for (let groups = blocks > 1 ? most : 1; groups <= most; groups++) {
    if (heightOf(groups) > room.height) continue;
    const rowsPerGroup = blocks > 1 ? rows : Math.ceil(rows / groups);
    const groupHeight = top + rowsPerGroup * lineHeight + margin + (blocks > 1 ? GAP : 0);
    const size = { left, top, margin, groupWidth, groupHeight };
    return { side, labels, linesPerRow, groups, rowsPerGroup, ...size };
  }
  return null;
}

/** Compute the corner of every cell, and the labels. */
function lay(grid: Grid, plan: Plan, room: Room): TileLayout {
  const { rows, columns, blocks } = planeSize(grid);
  const { side, linesPerRow, groups, rowsPerGroup } = plan;
  const perLine = Math.ceil(columns / linesPerRow);
  const count = grid.devices.length;
  const [x, y] = [new Float32Array(count), new Float32Array(count)];
  for (let i = 0; i < count; i++) {
    const column = i % columns;
    const row = Math.floor(i / columns) % rows;
    const block = Math.floor(i / (rows * columns));
    const group = blocks > 1 ? block : Math.floor(row / rowsPerGroup);
    const line = (row % rowsPerGroup) * linesPerRow + Math.floor(column / perLine);
    const spread = linesPerRow > 1 ? (row % rowsPerGroup) * 3 : 0;
    x[i] = (group % groups) * (plan.groupWidth + GAP) + plan.left + (column % perLine) * side;
    y[i] = Math.floor(group / groups) * plan.groupHeight + plan.top + line * side + spread;
  }
  const drawn = blocks > 1 ? blocks : Math.ceil(rows / rowsPerGroup);
  return {
    side,
    width: Math.min(groups, drawn) * (plan.groupWidth + GAP) - GAP,
    height: Math.ceil(drawn / groups) * plan.groupHeight,
    x,
    y,
    labels: labelsOf(grid, plan, room, x, y),
    blocks: blocksOf(grid, { kind: 'plain' }),
    wraps: stubsOf(grid, plan, x, y),
    folding: foldingText(grid, plan, blocks, perLine),
  };
}

/** Return the links around a torus; none if rows or columns are folded. */
function stubsOf(grid: Grid, plan: Plan, x: Float32Array, y: Float32Array): readonly Stub[] {
  const { rows, columns, blocks } = planeSize(grid);
  const { side, margin, linesPerRow, rowsPerGroup } = plan;
  if (!grid.torus || linesPerRow > 1 || rowsPerGroup < rows) return [];
  const { down, across } = planeOf(grid.axes);
  const around = new Set(grid.torus.wraps);
  const stubs: Stub[] = [];
  const at = (i: number): { left: number; top: number } => ({ left: x[i] ?? 0, top: y[i] ?? 0 });
  const middle = (side - gapOf(side)) / 2;
  for (let block = 0; block < blocks; block++) {
    const first = block * rows * columns;
    for (let row = 0; around.has(across) && row < rows; row++) {
      const { left, top } = at(first + row * columns);
      stubs.push({ x: left, y: top + middle, dx: -margin, dy: 0 });
      stubs.push({ x: left + columns * side, y: top + middle, dx: margin - 1, dy: 0 });
    }
    for (let column = 0; down !== null && around.has(down) && column < columns; column++) {
      const { left, top } = at(first + column);
      stubs.push({ x: left + middle, y: top, dx: 0, dy: -margin });
      stubs.push({ x: left + middle, y: top + rows * side, dx: 0, dy: margin - 1 });
    }
  }
  return stubs;
}

/** Return the gap between two cells, in CSS pixels. */
export const gapOf = (side: number): number => (side >= 14 ? 3 : side >= 9 ? 2 : 1);

function foldingText(grid: Grid, plan: Plan, blocks: number, perLine: number): string {
  const { down, across } = planeOf(grid.axes);
  const parts: string[] = [];
  if (plan.linesPerRow > 1) parts.push(`${across} folded after every ${perLine}`);
  if (blocks === 1 && plan.groups > 1 && down) {
    parts.push(`${down} folded after every ${plan.rowsPerGroup}`);
  }
  const leading = grid.axes.slice(0, -2).filter(axis => axis.size > 1);
  if (leading.length && !plan.labels[0]?.includes(leading[0]?.name ?? '')) {
    parts.push(`blocks numbered by ${leading.map(axis => axis.name).join(' · ')}`);
  }
  return parts.join(', ');
}

function labelsOf(
  grid: Grid,
  plan: Plan,
  room: Room,
  x: Float32Array,
  y: Float32Array,
): readonly Label[] {
  const labels: Label[] = [];
  const { rows, columns } = planeSize(grid);
  const { side, left, top, margin, linesPerRow } = plan;
  blocksOf(grid, { kind: 'plain' }).forEach((block, number) => {
    const first = number * rows * columns;
    const text = plan.labels[number] ?? '';
    const [x0, y0] = [x[first] ?? 0, y[first] ?? 0];
    if (text) labels.push({ text, x: x0 - left, y: y0 - top + LINE / 2, align: 'left' });
    for (let row = 0; row < rows; row++) {
      const i = first + row * columns;
      const [rowX, rowY] = [x[i] ?? 0, y[i] ?? 0];
      if (left > margin) {
        const label = block.rowLabels[row] ?? '';
        labels.push({ text: label, x: rowX - 6 - margin, y: rowY + side / 2, align: 'right' });
      }
      // Column labels stand above the first row, and again where rows continue beside it.
      if (side < 12 || linesPerRow > 1 || rows === 1 || row % plan.rowsPerGroup) continue;
      labels.push(
        ...columnLabels(block, x, i, side, room).map(l => ({ ...l, y: rowY - 9 - margin })),
      );
    }
  });
  return labels;
}

/** Return `model 0` for each column if there is room, else bare numbers, for every n-th column if necessary. */
function columnLabels(
  block: Block,
  x: Float32Array,
  first: number,
  side: number,
  room: Room,
): Omit<Label, 'y'>[] {
  const at = (column: number): number => (x[first + column] ?? 0) + side / 2;
  const texts = block.columnLabels;
  const longest = Math.max(...texts.map(text => text.length));
  if ((longest + 1) * room.character <= side) {
    return texts.map((text, column) => ({ text, x: at(column), align: 'center' }));
  }
  const numbers = texts.map((_, column) => String(column));
  const width = (String(texts.length - 1).length + 1) * room.character;
  const every = Math.max(1, Math.ceil(width / side));
  return numbers
    .map((text, column) => ({ text, x: at(column), align: 'center' as const }))
    .filter((_, column) => column % every === 0);
}

/**
 * Return the plan with the largest cells, of at least `smallest`; null if none fits.
 *
 * Labels are bare numbers if names do not fit.
 */
function planFor(grid: Grid, room: Room, smallest: number): Plan | null {
  const labels = blockLabels(grid);
  const numbers = labels.map(numbersOnly);
  for (let side = LARGEST; side >= smallest; side--) {
    const plan = planWith(grid, room, side, labels) ?? planWith(grid, room, side, numbers);
    if (plan) return plan;
  }
  return null;
}

/** Lay out a grid within a room; return null if cells would be under `smallest`. */
export function layTiles(grid: Grid, room: Room, smallest = SMALLEST): TileLayout | null {
  const plan = planFor(grid, room, smallest);
  return plan && lay(grid, plan, room);
}

/** Lay out a grid of one cell per host, taller than the room if necessary. */
export function layHosts(hosts: Grid, room: Room): TileLayout {
  const plan =
    planFor(hosts, room, SMALLEST_HOST) ??
    planWith(hosts, { ...room, height: Infinity }, SMALLEST_HOST, ['']);
  return lay(hosts, plan ?? fallback(hosts), room);
}

/** Return a plan of one column, for a room narrower than a single cell. */
function fallback(hosts: Grid): Plan {
  const count = hosts.devices.length;
  return {
    side: SMALLEST_HOST,
    labels: [''],
    linesPerRow: count,
    groups: 1,
    rowsPerGroup: 1,
    margin: 0,
    left: 0,
    top: 0,
    groupWidth: SMALLEST_HOST,
    groupHeight: count * SMALLEST_HOST,
  };
}
