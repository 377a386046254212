/** The little picture of an array, on a canvas. */

import { cuts, type Rectangle } from '../layout/picture_layout';
import { processOf } from '../model/device_text';
import type { HeldPiece, Holding } from '../model/pieces';
import { pieceStyle } from './piece_style';
import type { Look } from './theme';

/** Fill each rectangle in the look of its piece, with a ring around piece number `ring`. */
export function paintPieces(
  g: CanvasRenderingContext2D,
  rectangles: readonly Rectangle[],
  look: Look,
  ring: number | null,
): void {
  const count = rectangles.length;
  const scale = devicePixelRatio || 1;
  for (const { x, y, width, height, number } of rectangles) {
    const style = pieceStyle(number, count, look.theme);
    const gap = Math.min(1, width / 6, height / 6);
    const box = [x, y, width - gap, height - gap] as const;
    g.fillStyle = style.fill;
    g.fillRect(...box);
    const pattern = look.patterns.fill(style.pattern, g, 2 * scale);
    if (pattern && Math.min(width, height) >= 6) {
      g.fillStyle = pattern;
      g.fillRect(...box);
    }
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
