/**
 * The colours, one meaning each.
 *
 * - A fill is a piece of the picked array or, while a collective is chosen, a group of its devices; nothing else is
 *   filled with these colours.
 * - Red and amber are trouble: notices, and processes that failed, are stuck or lost.
 * - All else is ink on paper: hosts are told apart by the texture of an edge and by their names,
 *   mesh axes by their names in a box, memory by the length of a bar, the cursor by a ring.
 */

import { FILLS } from './fills';

export type Theme = keyof typeof FILLS;

/** How many fills there are before patterns begin. */
export const FILL_COUNT = FILLS.light.length;

/** The fill of colour number `index`, which repeats after `FILL_COUNT`. */
export function fillOf(index: number, theme: Theme): string {
  return FILLS[theme][index % FILL_COUNT] ?? 'transparent';
}
