/** Where the cells of a large mesh go: as many pixels a cell as fit, folded where they must be. */

import { blocksOf, planeOf, planeSize, type Block } from './blocks';
import type { Grid } from './grid';

/** The smallest side of a cell; below it hosts are drawn instead of devices. */
export const SMALLEST = 5;
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

/** Characters of the longest label of a block. */
const blockLabelLength = (grid: Grid): number =>
  Math.max(...blocksOf(grid, { kind: 'plain' }).map(block => block.label.length));

function planFor(grid: Grid, room: Room, side: number): Plan | null {
  const { rows, columns, blocks } = planeSize(grid);
  const { down } = planeOf(grid.axes);
  const labelled = side >= 12 && down !== null;
  const longest = down === null ? 0 : down.length + 1 + String(rows - 1).length;
  const left = labelled ? Math.ceil(longest * room.character) + 8 : 0;
  const perLine = Math.floor((room.width - left) / side);
  if (perLine < 1) return null;
  const linesPerRow = Math.ceil(columns / perLine);
  const top = (blocks > 1 ? LINE : 0) + (side >= 12 && linesPerRow === 1 && rows > 1 ? LINE : 0);
  const longestLabel = blocks > 1 ? blockLabelLength(grid) * room.character : 0;
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
    return { side, linesPerRow, groups, rowsPerGroup, left, top, groupWidth, groupHeight };
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
  const { columns } = planeSize(grid);
  const { side, left, top, linesPerRow } = plan;
  let position = 0;
  for (const block of blocksOf(grid, { kind: 'plain' })) {
    const [x0, y0] = [x[position] ?? 0, y[position] ?? 0];
    if (block.label) {
      labels.push({ text: block.label, x: x0 - left, y: y0 - top + LINE / 2, align: 'left' });
    }
    if (left) {
      block.rowLabels.forEach((text, row) => {
        const i = position + row * columns;
        labels.push({ text, x: (x[i] ?? 0) - 6, y: (y[i] ?? 0) + side / 2, align: 'right' });
      });
    }
    if (top && linesPerRow === 1 && block.rows > 1) {
      labels.push(...columnLabels(block, x, position, side, room).map(l => ({ ...l, y: y0 - 9 })));
    }
    position += block.cells.length;
  }
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

/** Lays out a grid within a room, or answers null where cells would be under `SMALLEST`. */
export function layTiles(grid: Grid, room: Room): TileLayout | null {
  for (let side = LARGEST; side >= SMALLEST; side--) {
    const plan = planFor(grid, room, side);
    if (plan) return lay(grid, plan, room);
  }
  return null;
}

/** Lays out a grid of one cell a host, taller than the room if it must be. */
export function layHosts(hosts: Grid, room: Room): TileLayout {
  for (let side = LARGEST; side > SMALLEST_HOST; side--) {
    const plan = planFor(hosts, room, side);
    if (plan) return lay(hosts, plan, room);
  }
  const plan = planFor(hosts, { ...room, height: Infinity }, SMALLEST_HOST);
  return lay(hosts, plan ?? fallback(hosts), room);
}

/** One column: for a room narrower than a single cell. */
function fallback(hosts: Grid): Plan {
  const count = hosts.devices.length;
  return {
    side: SMALLEST_HOST,
    linesPerRow: count,
    groups: 1,
    rowsPerGroup: 1,
    left: 0,
    top: 0,
    groupWidth: SMALLEST_HOST,
    groupHeight: count * SMALLEST_HOST,
  };
}
