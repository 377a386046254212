/** Layout of one card per device, for meshes that are small enough. */

import type { Grid } from '../model/grid';
import { blocksOf, planeSize, type Block, type Fold } from './blocks';

/** Most devices that are drawn as cards; larger meshes are always drawn as tiles. */
const MOST_CARDS = 64;
/** Sizes in CSS pixels, the same as in the style sheet. */
export const GAP = 5;
export const BLOCK_GAP = 14;
const LINE = 19;

export interface CardSize {
  /** The least width of a card. */
  readonly width: number;
  /** Return the height of a card of this width. */
  readonly height: (width: number) => number;
}

export interface CardRoom {
  readonly width: number;
  readonly height: number;
  readonly character: number;
}

export interface CardLayout {
  readonly blocks: readonly Block[];
  /** Number of blocks side by side. */
  readonly blocksPerLine: number;
  /** Width of the column of row labels; 0 if there are none. */
  readonly labelWidth: number;
  /** Whether labels are bare numbers, so that the axes must be named elsewhere. */
  readonly short: boolean;
}

/** Return a block with its labels in full, `data 0`, or as bare numbers if those are too wide. */
function labelled(block: Block, short: boolean): Block {
  if (!short) return block;
  const bare = (labels: readonly string[]): string[] =>
    labels.map(label => label.slice(label.lastIndexOf(' ') + 1));
  return { ...block, rowLabels: bare(block.rowLabels), columnLabels: bare(block.columnLabels) };
}

function labelWidthOf(block: Block, character: number): number {
  const longest = Math.max(0, ...block.rowLabels.map(text => text.length));
  return longest ? Math.ceil(longest * character) + 8 : 0;
}

/** Return the ways to lay out a grid, the most natural first. */
function folds(grid: Grid, room: CardRoom, card: CardSize): Fold[] {
  const { rows, columns } = planeSize(grid);
  if (rows > 1) return [{ kind: 'plain' }, { kind: 'turned' }];
  const axis = grid.axes[grid.axes.length - 1];
  const label = ((axis?.name.length ?? 0) + 6) * room.character;
  const most = Math.max(1, Math.floor((room.width - label + GAP) / (card.width + GAP)));
  return [{ kind: 'folded', perLine: evenly(columns, most) }];
}

/** Lay out one card per device; return null if the cards do not fit. */
export function layCards(grid: Grid, room: CardRoom, card: CardSize): CardLayout | null {
  if (grid.devices.length > MOST_CARDS) return null;
  for (const fold of folds(grid, room, card)) {
    const blocks = blocksOf(grid, fold);
    for (const short of [false, true]) {
      const layout = tryBlocks(
        blocks.map(block => labelled(block, short)),
        room,
        card,
      );
      if (layout && (short || headingsFit(layout, room))) return { ...layout, short };
    }
  }
  return null;
}

/** Return whether column labels fit above their columns, and row labels take at most a third of a block. */
function headingsFit(layout: Omit<CardLayout, 'short'>, room: CardRoom): boolean {
  const first = layout.blocks[0];
  if (!first) return true;
  const block = (room.width + BLOCK_GAP) / layout.blocksPerLine - BLOCK_GAP;
  const column = (block - layout.labelWidth) / first.columns - GAP;
  const longest = Math.max(0, ...first.columnLabels.map(text => text.length));
  return longest * room.character <= column && layout.labelWidth <= block / 3;
}

/** Put as many blocks side by side as fit; return null if not all blocks fit that way. */
function tryBlocks(
  blocks: readonly Block[],
  room: CardRoom,
  card: CardSize,
): Omit<CardLayout, 'short'> | null {
  const first = blocks[0];
  if (!first) return null;
  const labelWidth = labelWidthOf(first, room.character);
  const least = labelWidth + first.columns * (card.width + GAP);
  if (least - GAP > room.width) return null;
  const most = Math.floor((room.width + BLOCK_GAP) / (least + BLOCK_GAP));
  const blocksPerLine = evenly(blocks.length, Math.max(1, most));
  const width = (room.width + BLOCK_GAP) / blocksPerLine - BLOCK_GAP;
  const height = card.height((width - labelWidth) / first.columns - GAP);
  const heading = (first.label ? LINE : 0) + (first.columnLabels.length ? LINE : 0);
  const blockHeight = heading + first.rows * (height + GAP) + BLOCK_GAP;
  const lines = Math.ceil(blocks.length / blocksPerLine);
  return lines * blockHeight > room.height ? null : { blocks, blocksPerLine, labelWidth };
}

/**
 * Return the most columns, up to `most`, with which all lines are full.
 *
 * If that means half of the possible columns or fewer, return as many as possible; the last line is
 * then shorter.
 */
function evenly(count: number, most: number): number {
  const columns = Math.min(count, most);
  for (let tried = columns; tried > columns / 2; tried--) if (count % tried === 0) return tried;
  return columns;
}
