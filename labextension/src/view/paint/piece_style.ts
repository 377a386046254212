/** How a piece looks: the same wherever it is drawn, and never like another piece of its array. */

import { FILL_COUNT, fillOf, type Theme } from './palette';

/** Patterns over a fill; `plain` comes first, so that few pieces need none. */
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
  /** The piece's number, where there are more pieces than fills × patterns; else null. */
  readonly label: string | null;
}

/** How many pieces fill and pattern alone tell apart. */
export const LOOKS = FILL_COUNT * PATTERNS.length;

/** The look of piece `number` of `count`. */
export function pieceStyle(number: number, count: number, theme: Theme): PieceStyle {
  const pattern = PATTERNS[Math.floor(number / FILL_COUNT) % PATTERNS.length] ?? 'plain';
  return { fill: fillOf(number, theme), pattern, label: count > LOOKS ? String(number) : null };
}
