/** The keys that move through a list. */

/** Most pixels that a row takes, for moving by pages. */
const ROW = 32;

/**
 * Return the row that a key moves to from row `at` (-1 for none) of `count`; null for other keys.
 *
 * `height` is the height of the box in CSS pixels.
 */
export function rowAfter(key: string, at: number, count: number, height: number): number | null {
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: count - 1,
  };
  const target = targets[key];
  return target === undefined ? null : Math.max(0, Math.min(count - 1, target));
}
