/** Patterns of pieces, drawn once as tiles. */

import type { Pattern } from './piece_style';

/** Side of a tile in CSS pixels. */
const SIDE = 8;

type Stroke = (g: CanvasRenderingContext2D) => void;

/**
 * Return a stroke of diagonal lines: one from edge to edge and its neighbours, so that tiles join
 * without a seam.
 */
const diagonal =
  (rising: boolean): Stroke =>
  g => {
    for (const shift of [-SIDE, 0, SIDE]) {
      g.moveTo(shift - 1, rising ? SIDE + 1 : -1);
      g.lineTo(shift + SIDE + 1, rising ? -1 : SIDE + 1);
    }
  };

const level: Stroke = g => {
  g.moveTo(0, SIDE / 2);
  g.lineTo(SIDE, SIDE / 2);
};

const upright: Stroke = g => {
  g.moveTo(SIDE / 2, 0);
  g.lineTo(SIDE / 2, SIDE);
};

const dot: Stroke = g => {
  for (const [x, y] of [
    [2, 2],
    [6, 6],
  ] as const) {
    g.moveTo(x + 0.9, y);
    g.arc(x, y, 0.9, 0, 2 * Math.PI);
  }
};

const STROKES: Readonly<Record<Pattern, readonly Stroke[]>> = {
  plain: [],
  rising: [diagonal(true)],
  level: [level],
  dots: [dot],
  falling: [diagonal(false)],
  upright: [upright],
  crossed: [diagonal(true), diagonal(false)],
  grid: [level, upright],
};

/** Draw a tile of `pattern` in `ink` on nothing, for `createPattern` or as an image of a style sheet. */
export function patternTile(pattern: Pattern, ink: string, scale = 2): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = SIDE * scale;
  const g = canvas.getContext('2d');
  if (!g) return canvas;
  g.scale(scale, scale);
  g.strokeStyle = ink;
  g.lineWidth = 1.3;
  for (const stroke of STROKES[pattern]) {
    g.beginPath();
    stroke(g);
    g.stroke();
  }
  return canvas;
}

/** The tiles of one ink, each drawn once, as canvas patterns and as CSS images. */
export class PatternBook {
  private readonly images = new Map<Pattern, string>();
  private readonly tiles = new Map<Pattern, HTMLCanvasElement>();

  constructor(private readonly ink: string) {}

  /** Return a CSS `background-image` and `background-size`; `none` for the plain pattern. */
  css(pattern: Pattern): { readonly image: string; readonly size: string } {
    if (pattern === 'plain') return { image: 'none', size: 'auto' };
    let image = this.images.get(pattern);
    if (!image) this.images.set(pattern, (image = `url(${this.tile(pattern).toDataURL()})`));
    return { image, size: `${SIDE}px` };
  }

  /** Return a canvas fill, made smaller by the factor `scale`; null for the plain pattern. */
  fill(pattern: Pattern, g: CanvasRenderingContext2D, scale: number): CanvasPattern | null {
    if (pattern === 'plain') return null;
    const made = g.createPattern(this.tile(pattern), 'repeat');
    made?.setTransform(new DOMMatrix().scale(1 / scale));
    return made;
  }

  private tile(pattern: Pattern): HTMLCanvasElement {
    let tile = this.tiles.get(pattern);
    if (!tile) this.tiles.set(pattern, (tile = patternTile(pattern, this.ink)));
    return tile;
  }
}
