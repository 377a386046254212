/** Drawing of the values of an array on a canvas: the larger a value, the more ink. */

import type { ValuesPicture } from '../model/messages';
import { prepare } from './canvas';
import type { Look } from './theme';

/** Most CSS pixels of one value, and of the longer side of a picture. */
const LARGEST_VALUE = 16;
const SIDE = 192;

/**
 * Draw each value as a square. A number that is not finite has the colour of trouble; a missing
 * value stays empty.
 */
export function paintValues(canvas: HTMLCanvasElement, picture: ValuesPicture, look: Look): void {
  const { rows, columns, values } = picture;
  const size = Math.max(2, Math.min(LARGEST_VALUE, Math.floor(SIDE / Math.max(rows, columns))));
  const g = prepare(canvas, { width: columns * size, height: rows * size });
  if (!g) return;
  values.forEach((value, i) => {
    if (value === null) return;
    g.globalAlpha = value === 'nan' ? 1 : 0.04 + 0.86 * value;
    g.fillStyle = value === 'nan' ? look.bad : look.ink;
    g.fillRect((i % columns) * size, Math.floor(i / columns) * size, size, size);
  });
  g.globalAlpha = 1;
}
