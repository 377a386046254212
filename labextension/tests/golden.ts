/** The golden snapshots that the Python tests read too. */

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import type { Slices } from '../src/view/model/pieces';
import type { Mesh, Snapshot } from '../src/view/model/snapshot';

const FOLDER = new URL('../../tests/golden/', import.meta.url);

export interface ExpectedArray {
  readonly path: string;
  readonly partial: boolean;
  readonly slices: Readonly<Record<string, Slices>>;
  readonly pieces: readonly {
    readonly slices: Slices;
    readonly addend: number | null;
    readonly devices: readonly string[];
  }[];
}

export interface ExpectedTree {
  readonly name: string;
  readonly path: string;
  readonly alike: number;
  readonly count: number;
  readonly nbytes: number;
  readonly device_bytes: number | null;
  /** The path of each array, and why the array is whole everywhere if it is large. */
  readonly arrays: readonly (readonly [string, string | null])[];
  readonly branches: readonly ExpectedTree[];
}

export interface Golden {
  readonly name: string;
  readonly snapshot: Snapshot;
  readonly expected: readonly ExpectedArray[];
  readonly trees: readonly ExpectedTree[];
  /** The devices with which each device exchanges data, for each collective; only for compiled programs. */
  readonly exchanges?: readonly Readonly<Record<string, readonly string[]>>[];
}

export const goldens: readonly Golden[] = readdirSync(FOLDER)
  .filter(file => file.endsWith('.json'))
  .map(file => {
    const text = readFileSync(fileURLToPath(new URL(file, FOLDER)), 'utf-8');
    return { name: file.replace('.json', ''), ...(JSON.parse(text) as Omit<Golden, 'name'>) };
  });

/** Return the golden snapshot of this name; throw if there is none. */
export function golden(name: string): Golden {
  const found = goldens.find(one => one.name === name);
  if (!found) throw new Error(`no golden snapshot named ${name}`);
  return found;
}

export const meshesOf = (snapshot: Snapshot): Map<string, Mesh> =>
  new Map(snapshot.meshes.map(mesh => [mesh.id, mesh]));

/** Return a value that a golden snapshot has for certain; throw if it is missing. */
export function the<T>(value: T | null | undefined): T {
  if (value === undefined || value === null) throw new Error('missing');
  return value;
}
