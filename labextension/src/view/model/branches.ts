/** Arrays as the trees that their paths make. */

import { DEEPEST } from './contract';
import { grouped, largest } from './lists';
import { divisionOf, elementsOf } from './pieces';
import type { Array as NamedArray, Mesh } from './snapshot';

const STEPS = /\.[^.[]+|\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\]'"])*\]|[^.[]+/g;
const FIRST_STEP = new RegExp(STEPS.source);
const NUMBER = /^\[(\d+)\]$/;

/** A part of a tree. */
export interface Branch {
  /** The text behind the path of the branch above. */
  readonly name: string;
  /** The whole expression. */
  readonly path: string;
  /** The arrays under exactly this path: one, or one for each version that processes have. */
  readonly arrays: readonly NamedArray[];
  readonly branches: readonly Branch[];
  /**
   * The neighbours `[3]`, `[4]`, … that this branch stands for, the first included; empty if it
   * stands for itself.
   */
  readonly alike: readonly Branch[];
  /** Number of arrays here and below. */
  readonly count: number;
}

/** Return the steps of a path: `model.blocks[0]` → `model`, `.blocks`, `[0]`. */
export const steps = (path: string): string[] => path.match(STEPS) ?? [];

/** Return whether a path is `root`, or leads on from it. */
export const within = (path: string, root: string): boolean =>
  path === root || (path.startsWith(root) && '.['.includes(path[root.length] ?? ' '));

/** Return all arrays here and below. */
export function leavesOf(branch: Branch): NamedArray[] {
  const below = branch.alike.length ? branch.alike : branch.branches;
  const here = branch.alike.length ? [] : branch.arrays;
  return [...here, ...below.flatMap(leavesOf)];
}

/** Return a tree for each name, in the order in which the names are first met. */
export function forest(arrays: readonly NamedArray[]): Branch[] {
  const names = grouped(arrays, ({ path }) => FIRST_STEP.exec(path)?.[0] ?? path);
  return [...names].map(([name, of]) => joined(grow(name, of)));
}

/** A branch that is still being built. */
interface Sprout {
  readonly name: string;
  readonly path: string;
  readonly arrays: NamedArray[];
  readonly below: Sprout[];
}

/**
 * Return the tree of arrays whose paths begin with `root`.
 *
 * A branch that has only one branch below it, and nothing else, is joined with it. Neighbours in a
 * list that are alike, such as the layers of a transformer, become one branch with `alike`. The
 * tree is the same as in `nbdist.view.tree`.
 */
export function grow(root: string, arrays: readonly NamedArray[]): Branch {
  const top: Sprout = { name: root, path: root, arrays: [], below: [] };
  const known = new Map([[root, top]]);
  for (const array of arrays) {
    let at = top;
    const found = steps(array.path.slice(root.length));
    const deep = found.slice(DEEPEST).join('');
    for (const name of [...found.slice(0, DEEPEST), ...(deep ? [deep] : [])]) {
      const path = at.path + name;
      let next = known.get(path);
      if (!next) {
        next = { name, path, arrays: [], below: [] };
        known.set(path, next);
        at.below.push(next);
      }
      at = next;
    }
    at.arrays.push(array);
  }
  return finished(top);
}

/** Return whether one branch can stand for the other. */
const looksLike = (a: Branch, b: Branch): boolean =>
  a.count === b.count &&
  same(a.arrays.map(unnamed), b.arrays.map(unnamed)) &&
  a.branches.length === b.branches.length &&
  a.branches.every((below, i) => {
    const other = b.branches[i];
    return other ? other.name === below.name && looksLike(below, other) : false;
  });

const unnamed = (array: NamedArray): NamedArray => ({ ...array, path: '' });

/** Return whether two values of a snapshot are equal. */
function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((value, i) => same(value, b[i]));
  }
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return false;
  const others = new Map(Object.entries(b));
  const ones = Object.entries(a);
  return ones.length === others.size && ones.every(([key, value]) => same(value, others.get(key)));
}

function finished({ name, path, arrays, below }: Sprout): Branch {
  const branches = together(below.map(one => joined(finished(one))));
  const count = branches.reduce((sum, one) => sum + one.count, arrays.length);
  return { name, path, arrays, branches, alike: [], count };
}

/**
 * Return a branch joined with the only branch below it.
 *
 * Returns the branch as it is if it has more than that, or if the branch below stands for several.
 */
function joined(branch: Branch): Branch {
  const [below, second] = branch.branches;
  if (branch.arrays.length || !below || second || below.alike.length) return branch;
  return { ...below, name: branch.name + below.name };
}

/** Return the branches, with one branch for all neighbours `[3]`, `[4]`, … that look alike. */
function together(branches: readonly Branch[]): Branch[] {
  const runs: Branch[][] = [];
  let last = -1;
  for (const branch of branches) {
    const number = Number(NUMBER.exec(branch.name)?.[1] ?? -1);
    const run = runs[runs.length - 1];
    const first = run?.[0];
    const follows = last >= 0 && number === last + 1 && branch.branches.length > 0;
    if (first && follows && looksLike(first, branch)) run.push(branch);
    else runs.push([branch]);
    last = number;
  }
  return runs.flatMap(run => {
    const [first, end] = [run[0], run[run.length - 1]];
    if (!first || !end || first === end) return run;
    const name = `${first.name.slice(0, -1)}–${end.name.slice(1)}`;
    return [{ ...first, name, alike: run, count: first.count * run.length }];
  });
}

/**
 * Return the bytes that the fullest device needs for the arrays; null if the mesh of one is not
 * known.
 *
 * An array under two paths counts under both.
 */
export function fullest(
  arrays: readonly NamedArray[],
  meshes: ReadonlyMap<string, Mesh>,
): number | null {
  // Most arrays lie on one mesh: bytes are summed for each list of devices first, so that devices
  // are visited once and not for each array.
  const groups = new Map<readonly string[], number>();
  for (const array of arrays) {
    const needs = neededBy(array, meshes);
    if (!needs) return null;
    for (const [devices, bytes] of needs) {
      groups.set(devices, (groups.get(devices) ?? 0) + bytes);
    }
  }
  if (groups.size === 1) return [...groups.values()][0] ?? 0;
  const needed = new Map<string, number>();
  for (const [devices, bytes] of groups) {
    for (const key of devices) needed.set(key, (needed.get(key) ?? 0) + bytes);
  }
  return largest([...needed.values()]);
}

/** Return groups of devices with the bytes that each device of the group needs for an array. */
function neededBy(
  array: NamedArray,
  meshes: ReadonlyMap<string, Mesh>,
): (readonly [readonly string[], number])[] | null {
  const { sharding, nbytes, shape } = array;
  if (sharding.kind === 'named') {
    const mesh = meshes.get(sharding.mesh);
    const division = divisionOf(array, meshes);
    return mesh && division ? [[mesh.devices, division.bytesPerDevice]] : null;
  }
  if (sharding.kind === 'indexed') {
    const elements = Math.max(1, elementsOf(shape.map(size => [0, size])));
    return sharding.pieces.map(({ slices, devices }) => [
      devices,
      Math.floor((nbytes * elementsOf(slices)) / elements),
    ]);
  }
  return [[sharding.kind === 'single' ? [sharding.device] : sharding.devices, nbytes]];
}
