/** Where the cells of a large mesh go: as many pixels a cell as fit, folded where they must be. */

import type { Grid } from '../model/grid';
import { blockLabels, blocksOf, planeOf, planeSize, type Block } from './blocks';

/** The smallest side of a cell; below it hosts are drawn instead of devices. */
export const SMALLEST = 5;
/** The same of a torus, whose shape hosts in a row would not show. */
export const SMALLEST_ON_TORUS = 4;
const LARGEST = 40;
const SMALLEST_HOST = 3;

export interface Label {
  readonly text: string;
  readonly x: number;
  /** The middle of the line. */
  readonly y: number;
  readonly align: 'left' | 'right' | 'center';
}

/** Positions in CSS pixels. `x[i]`, `y[i]` is the corner of grid position i. */
export interface TileLayout {
  readonly side: number;
  readonly width: number;
  readonly height: number;
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly labels: readonly Label[];
  readonly blocks: readonly Block[];
  /** Says in words how rows are folded, or is empty. */
  readonly folding: string;
}

export interface Room {
  readonly width: number;
  readonly height: number;
  /** Pixels a character of a label takes. */
  readonly character: number;
}

const LINE = 18;
const GAP = 10;

/** How a block is laid out at one side length. */
interface Plan {
  readonly side: number;
  /** One label a block. */
  readonly labels: readonly string[];
  /** Lines that one row takes where it is wider than the room. */
  readonly linesPerRow: number;
  /** Columns of blocks, or of parts of one tall block. */
  readonly groups: number;
  readonly rowsPerGroup: number;
  readonly left: number;
  readonly top: number;
  readonly groupWidth: number;
  readonly groupHeight: number;
}

/** `pod 0 · data 1`, or `0 · 1` where the names of the axes are too long. */
const numbersOnly = (label: string): string =>
  label
    .split(' · ')
    .map(part => part.slice(part.lastIndexOf(' ') + 1))
    .join(' · ');

const longestOf = (texts: readonly string[]): number =>
  texts.reduce((most, text) => Math.max(most, text.length), 0);

/** Block labels are `labels`; the plan fits at cells of `side`, or is null. */
function planWith(grid: Grid, room: Room, side: number, labels: readonly string[]): Plan | null {
  const { rows, columns, blocks } = planeSize(grid);
  const { down } = planeOf(grid.axes);
  const labelled = side >= 12 && down !== null;
  const longest = down === null ? 0 : down.length + 1 + String(rows - 1).length;
  const left = labelled ? Math.ceil(longest * room.character) + 8 : 0;
  const perLine = Math.floor((room.width - left) / side);
  if (perLine < 1) return null;
  const linesPerRow = Math.ceil(columns / perLine);
  const top = (blocks > 1 ? LINE : 0) + (side >= 12 && linesPerRow === 1 && rows > 1 ? LINE : 0);
  const longestLabel = longestOf(labels) * room.character;
  if (longestLabel > room.width) return null;
  const groupWidth = Math.max(left + Math.min(columns, perLine) * side, longestLabel);
  const most = Math.max(1, Math.floor((room.width + GAP) / (groupWidth + GAP)));
  const lineHeight = linesPerRow * side + (linesPerRow > 1 ? 3 : 0);
  const heightOf = (groups: number): number =>
    blocks > 1
      ? Math.ceil(blocks / groups) * (top + rows * lineHeight + GAP)
      : top + Math.ceil(rows / groups) * lineHeight;
  for (let groups = blocks > 1 ? most : 1; groups <= most; groups++) {
    if (heightOf(groups) > room.height) continue;
    const rowsPerGroup = blocks > 1 ? rows : Math.ceil(rows / groups);
    const groupHeight = top + rowsPerGroup * lineHeight + (blocks > 1 ? GAP : 0);
    return { side, labels, linesPerRow, groups, rowsPerGroup, left, top, groupWidth, groupHeight };
  }
  return null;
}

/** Fills in the corner of every cell and the labels. */
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
    folding: foldingText(grid, plan, blocks, perLine),
  };
}

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
  const { side, left, top, linesPerRow } = plan;
  blocksOf(grid, { kind: 'plain' }).forEach((block, number) => {
    const first = number * rows * columns;
    const text = plan.labels[number] ?? '';
    const [x0, y0] = [x[first] ?? 0, y[first] ?? 0];
    if (text) labels.push({ text, x: x0 - left, y: y0 - top + LINE / 2, align: 'left' });
    for (let row = 0; row < rows; row++) {
      const i = first + row * columns;
      const [rowX, rowY] = [x[i] ?? 0, y[i] ?? 0];
      if (left) {
        const label = block.rowLabels[row] ?? '';
        labels.push({ text: label, x: rowX - 6, y: rowY + side / 2, align: 'right' });
      }
      // Above the first row, and again where rows go on beside it.
      if (side < 12 || linesPerRow > 1 || rows === 1 || row % plan.rowsPerGroup) continue;
      labels.push(...columnLabels(block, x, i, side, room).map(l => ({ ...l, y: rowY - 9 })));
    }
  });
  return labels;
}

/** `model 0` above each column where there is room, else the first and the last number. */
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

/** The plan with the largest cells from `smallest` on; numbers for labels where names do not fit. */
function planFor(grid: Grid, room: Room, smallest: number): Plan | null {
  const labels = blockLabels(grid);
  const numbers = labels.map(numbersOnly);
  for (let side = LARGEST; side >= smallest; side--) {
    const plan = planWith(grid, room, side, labels) ?? planWith(grid, room, side, numbers);
    if (plan) return plan;
  }
  return null;
}

/** Lays out a grid within a room, or answers null where cells would be under `smallest`. */
export function layTiles(grid: Grid, room: Room, smallest = SMALLEST): TileLayout | null {
  const plan = planFor(grid, room, smallest);
  return plan && lay(grid, plan, room);
}

/** Lays out a grid of one cell a host, taller than the room if it must be. */
export function layHosts(hosts: Grid, room: Room): TileLayout {
  const plan =
    planFor(hosts, room, SMALLEST_HOST) ??
    planWith(hosts, { ...room, height: Infinity }, SMALLEST_HOST, ['']);
  return lay(hosts, plan ?? fallback(hosts), room);
}

/** One column: for a room narrower than a single cell. */
function fallback(hosts: Grid): Plan {
  const count = hosts.devices.length;
  return {
    side: SMALLEST_HOST,
    labels: [''],
    linesPerRow: count,
    groups: 1,
    rowsPerGroup: 1,
    left: 0,
    top: 0,
    groupWidth: SMALLEST_HOST,
    groupHeight: count * SMALLEST_HOST,
  };
}
