/**
 * The colours, each with one meaning.
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
