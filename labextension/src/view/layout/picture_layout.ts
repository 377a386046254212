/** Layout of the little picture of an array: the place of each piece. */

import type { HeldPiece, Holding } from '../model/pieces';

/** Sizes in CSS pixels, the same as in the style sheet. */
export const WIDTH = 148;
export const HEIGHT = 96;

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly number: number;
}

/** Return the parts of each dimension, as the sorted starts of its slices. */
export function cuts(pieces: readonly HeldPiece[], dimensions: number): number[][] {
  return Array.from({ length: dimensions }, (_, d) => {
    const starts = new Set(pieces.map(piece => piece.slices[d]?.[0] ?? 0));
    return [...starts].sort((a, b) => a - b);
  });
}

/**
 * Return which dimensions run down and which run across.
 *
 * An array of one dimension is a strip; of two dimensions, the first runs down. Of more, the last
 * dimension that is cut runs across, and the others that are cut run down, one inside the other.
 */
function directions(parts: readonly number[][]): { down: number[]; across: number[] } {
  const dimensions = parts.map((_, d) => d);
  if (dimensions.length <= 1) return { down: [], across: dimensions };
  if (dimensions.length === 2) return { down: [0], across: [1] };
  const cut = dimensions.filter(d => (parts[d]?.length ?? 1) > 1);
  return { down: cut.slice(0, -1), across: cut.slice(-1) };
}

/** Return the row-major place of a piece along some dimensions, and the number of places. */
function place(
  piece: HeldPiece,
  along: readonly number[],
  parts: readonly number[][],
): [number, number] {
  let [index, count] = [0, 1];
  for (const d of along) {
    const starts = parts[d] ?? [0];
    index = index * starts.length + Math.max(0, starts.indexOf(piece.slices[d]?.[0] ?? 0));
    count *= starts.length;
  }
  return [index, count];
}

/** Return the rectangle of each piece in the picture, in the order of the pieces. */
export function rectanglesOf(holding: Holding, dimensions: number): Rectangle[] {
  const parts = cuts(holding.pieces, dimensions);
  const { down, across } = directions(parts);
  // Different values of one slice stand side by side in the place of the slice.
  const layers = holding.own ? holding.pieces.length : holding.addends;
  return holding.pieces.map((piece, number) => {
    const [row, rows] = place(piece, down, parts);
    const [column, columns] = place(piece, across, parts);
    const layer = holding.own ? number : (piece.addend ?? 0);
    const width = WIDTH / columns / layers;
    const height = HEIGHT / rows;
    return { x: (column * layers + layer) * width, y: row * height, width, height, number };
  });
}
