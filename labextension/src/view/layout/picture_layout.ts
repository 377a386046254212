/** Where the pieces of an array lie in the little picture of it. */

import type { HeldPiece, Holding } from '../model/pieces';

/** Sizes in CSS pixels; the style sheet has the same ones. */
export const WIDTH = 148;
export const HEIGHT = 96;

export interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly number: number;
}

/** The parts of each dimension, as sorted starts. */
export function cuts(pieces: readonly HeldPiece[], dimensions: number): number[][] {
  return Array.from({ length: dimensions }, (_, d) => {
    const starts = new Set(pieces.map(piece => piece.slices[d]?.[0] ?? 0));
    return [...starts].sort((a, b) => a - b);
  });
}

/**
 * Which dimensions run down and across. The last dimension that is cut runs across and the others
 * that are cut run down, one inside the other; an array of one dimension is a strip.
 */
function directions(parts: readonly number[][]): { down: number[]; across: number[] } {
  const dimensions = parts.map((_, d) => d);
  if (dimensions.length <= 1) return { down: [], across: dimensions };
  if (dimensions.length === 2) return { down: [0], across: [1] };
  const cut = dimensions.filter(d => (parts[d]?.length ?? 1) > 1);
  return { down: cut.slice(0, -1), across: cut.slice(-1) };
}

/** Place of a piece along some dimensions, row-major, and how many places there are. */
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

/** Where each piece lies in the picture, in the order of the pieces. */
export function rectanglesOf(holding: Holding, dimensions: number): Rectangle[] {
  const parts = cuts(holding.pieces, dimensions);
  const { down, across } = directions(parts);
  // Values of one slice that are not the same one stand side by side in it.
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
