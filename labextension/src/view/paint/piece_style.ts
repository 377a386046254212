/**
 * The look of a shard, the same wherever it is drawn, and the colours, each with one meaning.
 *
 * - A fill stands for a shard of the picked array or, while a collective is chosen, for a group of its
 *   devices; nothing else is filled with these colours. Two shards never have the same: a few have
 *   colours that are far apart, and many have the colours of a ramp, with their numbers.
 * - Red and amber stand for trouble: notices, and processes that failed, are stuck or lost.
 * - Everything else is ink on paper: hosts are told apart by the texture of an edge and by their names,
 *   mesh axes by their names in a box, memory by the length of a bar, the cursor by a ring.
 */

import { FILLS } from './fills';

export type Theme = keyof typeof FILLS;

/** Number of fills that are far apart; more shards have colours of the ramp. */
export const FILL_COUNT = FILLS.light.length;

/**
 * Ends of the ramp: lightness, chroma and hue of OKLCH, in which equal steps look equal.
 *
 * It runs from dark blue over green to light yellow: the lightness alone tells first from last, also
 * for people who see no hues. The ends leave text in the theme's ink readable.
 */
const RAMP: Readonly<Record<Theme, readonly [from: Colour, to: Colour]>> = {
  light: [
    [0.68, 0.12, 275],
    [0.95, 0.12, 100],
  ],
  dark: [
    [0.22, 0.1, 290],
    [0.5, 0.1, 110],
  ],
};

type Colour = readonly [lightness: number, chroma: number, hue: number];

/** Return the colour of the ramp at `part`, from 0 to 1. */
export function rampAt(part: number, theme: Theme): string {
  const [from, to] = RAMP[theme];
  const [lightness = 0, chroma = 0, hue = 0] = from.map(
    (start, i) => start + part * ((to[i] ?? 0) - start),
  );
  return `oklch(${lightness.toFixed(4)} ${chroma.toFixed(4)} ${hue.toFixed(2)})`;
}

/** Return whether the colours of so many shards are those of the ramp, so that numbers must tell them apart. */
export const isRamp = (count: number): boolean => count > FILL_COUNT;

/** Return the fill of shard `number` of `count`; no other shard of the array has the same. */
export function fillOf(number: number, count: number, theme: Theme): string {
  if (isRamp(count)) return rampAt(number / (count - 1), theme);
  return FILLS[theme][number] ?? 'transparent';
}
