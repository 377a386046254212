/** Large arrays that nothing splits. */

import { specText } from './format';
import { divisionOf } from './pieces';
import type { Array as NamedArray, Mesh } from './snapshot';

/** Smaller arrays may be whole everywhere. */
const LARGE_BYTES = 1 << 20;

/** Why a large array is whole on each of several devices; null for one that is not, or is small. */
export function wholeWhy(array: NamedArray, meshes: ReadonlyMap<string, Mesh>): string | null {
  if (array.nbytes < LARGE_BYTES || array.sharding.kind === 'per_process') return null;
  const division = divisionOf(array, meshes);
  if (!division || division.pieces > 1 || division.copies < 2) return null;
  return array.sharding.kind === 'named'
    ? `its spec is ${specText(array.sharding)}, which splits nothing`
    : 'JAX chose that: no sharding with a mesh was given';
}
