/** The two pictures of an array: how it is cut into shards, and its values. */

import { processOf } from '../model/device_text';
import type { ValuesPicture } from '../model/messages';
import type { HeldPiece, Holding } from '../model/pieces';
import { prepare, type Look } from './look';
import { fillOf } from './piece_style';

/** Sizes of the picture in pixels of the theme, the same as in the style sheet. */
export const WIDTH = 148;
export const HEIGHT = 96;

interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly number: number;
}

/** Return the parts of each dimension, as the sorted starts of its slices. */
function cuts(pieces: readonly HeldPiece[], dimensions: number): number[][] {
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

/** Fill each rectangle in the look of its piece, with a ring around piece number `ring`. */
export function paintPieces(
  g: CanvasRenderingContext2D,
  rectangles: readonly Rectangle[],
  look: Look,
  ring: number | null,
): void {
  const count = rectangles.length;
  for (const { x, y, width, height, number } of rectangles) {
    const gap = Math.min(1, width / 6, height / 6);
    g.fillStyle = fillOf(number, count, look.theme);
    g.fillRect(x, y, width - gap, height - gap);
  }
  g.strokeStyle = look.ink;
  g.lineWidth = 2;
  const marked = rectangles.find(({ number }) => number === ring);
  if (marked) g.strokeRect(marked.x + 1, marked.y + 1, marked.width - 3, marked.height - 3);
}

/**
 * Return the label of a piece: `0,1`; `0 Σ2` for the second of the values to be added; `p2` for
 * process 2's own array.
 */
function labelOf(piece: HeldPiece, indices: string, own: boolean): string {
  if (own) return `p${processOf(piece.devices[0] ?? '')}`;
  return piece.addend === null ? indices : `${indices} Σ${piece.addend + 1}`.trim();
}

/** Write the numbers of the pieces along each dimension, `0,1`; write none at all if the longest has no room. */
export function paintIndices(
  g: CanvasRenderingContext2D,
  rectangles: readonly Rectangle[],
  holding: Holding,
  dimensions: number,
  look: Look,
): void {
  if (rectangles.some(({ number, height }) => holding.pieces[number] && height < 12)) return;
  const parts = cuts(holding.pieces, dimensions);
  const cut = parts.map((_, d) => d).filter(d => (parts[d]?.length ?? 1) > 1);
  g.font = `10px ${look.mono}`;
  g.fillStyle = look.ink;
  g.textAlign = 'center';
  g.textBaseline = 'middle';
  const widths = new Map<string, number>(); // measuring is slow, and few of many labels are different
  const labels = [];
  for (const { number, ...box } of rectangles) {
    const piece = holding.pieces[number];
    if (!piece) continue;
    const indices = cut.map(d => parts[d]?.indexOf(piece.slices[d]?.[0] ?? 0) ?? 0).join(',');
    const text = labelOf(piece, indices, holding.own);
    const needs = widths.get(text) ?? g.measureText(text).width;
    widths.set(text, needs);
    if (needs > box.width - 3) return;
    labels.push({ ...box, text });
  }
  for (const { x, y, width, height, text } of labels) {
    g.fillText(text, x + width / 2, y + height / 2);
  }
}

/** Most pixels of one value, and of the longer side of a picture. */
const LARGEST_VALUE = 16;
const LARGEST_SIDE = 192;

/**
 * Draw each value as a square. A number that is not finite has the colour of trouble; a missing
 * value stays empty.
 */
export function paintValues(canvas: HTMLCanvasElement, picture: ValuesPicture, look: Look): void {
  const { rows, columns, values } = picture;
  const size = Math.max(
    2,
    Math.min(LARGEST_VALUE, Math.floor(LARGEST_SIDE / Math.max(rows, columns))),
  );
  const g = prepare(canvas, { width: columns * size, height: rows * size }, look);
  if (!g) return;
  values.forEach((value, i) => {
    if (value === null) return;
    g.globalAlpha = value === 'nan' ? 1 : 0.04 + 0.86 * value;
    g.fillStyle = value === 'nan' ? look.bad : look.ink;
    g.fillRect((i % columns) * size, Math.floor(i / columns) * size, size, size);
  });
  g.globalAlpha = 1;
}
