/** A little picture of the whole array, cut as it lies on the devices. */

import { processOf } from './device_text';
import { element, setAttributes } from './element';
import type { HeldPiece, Holding } from './pieces';
import { pieceStyle } from './piece_style';
import type { Scene } from './scene';
import { changeOf, type Section } from './section';
import type { Look } from './theme';

const WIDTH = 148;
const HEIGHT = 96;

interface Rectangle {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly number: number;
}

/** The parts of each dimension, as sorted starts. */
function cuts(pieces: readonly HeldPiece[], dimensions: number): number[][] {
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

function rectanglesOf(holding: Holding, dimensions: number): Rectangle[] {
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

function paint(
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

/** `0,1`; `0 Σ2` for the second of the values to be added; `p2` for what process 2 has of its own. */
function labelOf(piece: HeldPiece, indices: string, own: boolean): string {
  if (own) return `p${processOf(piece.devices[0] ?? '')}`;
  return piece.addend === null ? indices : `${indices} Σ${piece.addend + 1}`.trim();
}

/** Numbers of the pieces along each dimension, `0,1`, where they fit. */
function paintIndices(
  g: CanvasRenderingContext2D,
  rectangles: readonly Rectangle[],
  holding: Holding,
  dimensions: number,
  look: Look,
): void {
  const parts = cuts(holding.pieces, dimensions);
  const cut = parts.map((_, d) => d).filter(d => (parts[d]?.length ?? 1) > 1);
  g.font = `10px ${look.mono}`;
  g.fillStyle = look.ink;
  g.textAlign = 'center';
  g.textBaseline = 'middle';
  for (const { x, y, width, height, number } of rectangles) {
    const piece = holding.pieces[number];
    if (!piece) continue;
    const indices = cut.map(d => parts[d]?.indexOf(piece.slices[d]?.[0] ?? 0) ?? 0).join(',');
    const text = labelOf(piece, indices, holding.own);
    if (height >= 12 && g.measureText(text).width <= width - 3) {
      g.fillText(text, x + width / 2, y + height / 2);
    }
  }
}

export class ArrayPicture implements Section {
  readonly node = element('canvas', 'nbdist-picture', { role: 'img' });
  private readonly changed = changeOf();

  draw(scene: Scene, look: Look): void {
    const { holding, array, state } = scene;
    const shown = state.hover ?? state.cursor;
    const ring = shown === null ? null : (holding?.of.get(shown) ?? null);
    if (!this.changed(holding, array, look, ring) || !holding || !array) return;
    const scale = devicePixelRatio || 1;
    [this.node.width, this.node.height] = [WIDTH * scale, HEIGHT * scale];
    const g = this.node.getContext('2d');
    if (!g) return;
    g.scale(scale, scale);
    const rectangles = rectanglesOf(holding, array.shape.length);
    paint(g, rectangles, look, holding.pieces.length > 1 ? ring : null);
    paintIndices(g, rectangles, holding, array.shape.length, look);
    setAttributes(this.node, {
      'aria-label': `Picture of ${array.path} cut into ${holding.pieces.length} pieces`,
    });
  }
}
