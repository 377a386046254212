/** The search in the list of arrays. */

import { shardingText, typeText } from './format';
import type { Array as NamedArray } from './snapshot';

/** Return the text that a search looks at: path, dtype, shape and spec. */
const searched = (array: NamedArray): string =>
  `${array.path} ${typeText(array)} ${array.dtype} ${shardingText(array)}`.toLowerCase();

/**
 * Return the arrays that contain every word of `query`, in their order; upper and lower case are
 * alike.
 *
 * Words are matched anywhere, so `dense kernel` finds `params.dense1.kernel`.
 */
export function findArrays(arrays: readonly NamedArray[], query: string): readonly NamedArray[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return arrays;
  return arrays.filter(array => {
    const text = searched(array);
    return words.every(word => text.includes(word));
  });
}
