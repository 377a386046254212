/** The look of a piece: the same wherever it is drawn, and never like that of another piece of its array. */

import { FILL_COUNT, fillOf, type Theme } from './palette';

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

/** Return the look of piece `number` of `count`. */
export function pieceStyle(number: number, count: number, theme: Theme): PieceStyle {
  const pattern = PATTERNS[Math.floor(number / FILL_COUNT) % PATTERNS.length] ?? 'plain';
  return { fill: fillOf(number, theme), pattern, label: count > LOOKS ? String(number) : null };
}
