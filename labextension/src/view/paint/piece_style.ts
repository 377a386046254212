/**
 * The look of a piece, the same wherever it is drawn, and the colours, each with one meaning.
 *
 * - A fill stands for a piece of the picked array or, while a collective is chosen, for a group of its
 *   devices; nothing else is filled with these colours.
 * - Red and amber stand for trouble: notices, and processes that failed, are stuck or lost.
 * - Everything else is ink on paper: hosts are told apart by the texture of an edge and by their names,
 *   mesh axes by their names in a box, memory by the length of a bar, the cursor by a ring.
 */

import { FILLS } from './fills';

export type Theme = keyof typeof FILLS;

/** Number of fills; after as many pieces, patterns begin. */
export const FILL_COUNT = FILLS.light.length;

/** Return the fill of colour number `index`; colours repeat after `FILL_COUNT`. */
export function fillOf(index: number, theme: Theme): string {
  return FILLS[theme][index % FILL_COUNT] ?? 'transparent';
}

/** Patterns over a fill; `plain` comes first, so that arrays of few pieces need no other. */
export const PATTERNS = [
  'plain',
  'rising',
  'level',
  'dots',
  'falling',
  'upright',
  'crossed',
  'grid',
] as const;

export type Pattern = (typeof PATTERNS)[number];

export interface PieceStyle {
  readonly fill: string;
  readonly pattern: Pattern;
  /** The piece's number if there are more pieces than fills × patterns; else null. */
  readonly label: string | null;
}

/** Number of pieces that fill and pattern alone tell apart. */
export const LOOKS = FILL_COUNT * PATTERNS.length;

/** Return the look of piece `number` of `count`; no other piece of the array has the same. */
export function pieceStyle(number: number, count: number, theme: Theme): PieceStyle {
  const pattern = PATTERNS[Math.floor(number / FILL_COUNT) % PATTERNS.length] ?? 'plain';
  return { fill: fillOf(number, theme), pattern, label: count > LOOKS ? String(number) : null };
}

/** Side of a pattern's tile in pixels of the theme, as in the style sheet of the mesh. */
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

/** Draw a tile of `pattern` in `ink` on nothing, twice as fine as it is shown. */
function drawTile(pattern: Pattern, ink: string): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 2 * SIDE;
  const g = canvas.getContext('2d');
  if (!g) return canvas;
  g.scale(2, 2);
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

  /** Return a CSS `background-image`; `none` for the plain pattern. */
  css(pattern: Pattern): string {
    if (pattern === 'plain') return 'none';
    let image = this.images.get(pattern);
    if (!image) this.images.set(pattern, (image = `url(${this.tile(pattern).toDataURL()})`));
    return image;
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
    if (!tile) this.tiles.set(pattern, (tile = drawTile(pattern, this.ink)));
    return tile;
  }
}
