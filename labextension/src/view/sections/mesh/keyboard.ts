/** Movement over a mesh with the keyboard. */

import { placesOf, positionAt, type Block, type Place } from '../../layout/blocks';

/** Return the place to which a key leads, which may be outside the blocks; null for other keys. */
function aim(key: string, control: boolean, at: Place, blocks: readonly Block[]): Place | null {
  const block = blocks[at.block];
  if (!block) return null;
  switch (key) {
    case 'ArrowRight':
      return { ...at, column: at.column + 1 };
    case 'ArrowLeft':
      return { ...at, column: at.column - 1 };
    case 'ArrowDown':
      return { ...at, row: at.row + 1 };
    case 'ArrowUp':
      return { ...at, row: at.row - 1 };
    case 'PageDown':
      return { ...at, block: at.block + 1 };
    case 'PageUp':
      return { ...at, block: at.block - 1 };
    case 'Home':
      return control ? { block: 0, row: 0, column: 0 } : { ...at, column: 0 };
    case 'End':
      return control ? lastPlace(blocks) : { ...at, column: lastColumn(block, at.row) };
    default:
      return null;
  }
}

/** Return the column of the last cell in a row that has a device. */
function lastColumn(block: Block, row: number): number {
  let column = block.columns - 1;
  while (column > 0 && (block.cells[row * block.columns + column] ?? -1) < 0) column -= 1;
  return column;
}

function lastPlace(blocks: readonly Block[]): Place {
  const block = blocks[blocks.length - 1];
  if (!block) return { block: 0, row: 0, column: 0 };
  return {
    block: blocks.length - 1,
    row: block.rows - 1,
    column: lastColumn(block, block.rows - 1),
  };
}

/** Keys that move over a mesh. */
export const MOVES: ReadonlySet<string> = new Set([
  'ArrowRight',
  'ArrowLeft',
  'ArrowDown',
  'ArrowUp',
  'PageDown',
  'PageUp',
  'Home',
  'End',
]);

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
  const target = aim(key, control, at, blocks);
  return (target && positionAt(blocks, target)) ?? position;
}
