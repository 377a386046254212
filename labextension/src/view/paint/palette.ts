/**
 * The colours, one meaning each.
 *
 * - A fill is a piece of the picked array, and nothing else is filled with these colours.
 * - Red and amber are trouble: notices, and processes that failed, are stuck or lost.
 * - All else is ink on paper: hosts are told apart by the texture of an edge and by their names,
 *   mesh axes by their names in a box, memory by the length of a bar, the cursor by a ring.
 */

export type Theme = 'light' | 'dark';

/**
 * Fills of pieces. Chosen in OKLCH for the greatest least distance between any two as seen with
 * normal, protanopic and deuteranopic eyes (Machado 2009), with the hues of red and amber left out
 * and text readable on each (contrast 4.5 or more).
 */
const FILLS: Readonly<Record<Theme, readonly string[]>> = {
  light: ['#73d0dc', '#ecccb8', '#a9bffc', '#abcf8e', '#f2a9c4', '#e7e694', '#d3e6ff', '#9ff0d8'],
  dark: ['#00506a', '#874e17', '#4a2478', '#144a02', '#7e1f48', '#1d5fa3', '#7c4a80', '#04724f'],
};

/** How many fills there are before patterns begin. */
export const FILL_COUNT = 8;

/** The fill of colour number `index`, which repeats after `FILL_COUNT`. */
export function fillOf(index: number, theme: Theme): string {
  return FILLS[theme][index % FILL_COUNT] ?? 'transparent';
}
