/** Large arrays that nothing splits. */

import { LARGE_BYTES } from './contract';
import { specText } from './format';
import type { Division } from './pieces';
import type { Array as NamedArray } from './snapshot';

/** Return why a large array is whole on each of several devices; null for any other array. */
export function wholeWhy(array: NamedArray, division: Division | null): string | null {
  if (array.nbytes < LARGE_BYTES || array.sharding.kind === 'per_process') return null;
  if (!division || division.pieces > 1 || division.copies < 2) return null;
  return array.sharding.kind === 'named'
    ? `its spec is ${specText(array.sharding)}, which splits nothing`
    : 'JAX chose that: no sharding with a mesh was given';
}
