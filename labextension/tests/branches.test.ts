import { describe, expect, it } from 'vitest';

import {
  forest,
  fullest,
  grow,
  leavesOf,
  steps,
  within,
  type Branch,
} from '../src/view/model/branches';
import { divisionOf } from '../src/view/model/pieces';
import type { Array as NamedArray, Mesh } from '../src/view/model/snapshot';
import { wholeWhy } from '../src/view/model/array_text';
import { golden, goldens, meshesOf, type ExpectedTree } from './golden';

/** Return a branch as the golden files have it. */
function plain(branch: Branch, meshes: ReadonlyMap<string, Mesh>): ExpectedTree {
  const leaves = leavesOf(branch);
  return {
    name: branch.name,
    path: branch.path,
    alike: Math.max(1, branch.alike.length),
    count: branch.count,
    nbytes: leaves.reduce((sum, array) => sum + array.nbytes, 0),
    device_bytes: fullest(leaves, meshes),
    arrays: branch.arrays.map(array => [array.path, wholeWhy(array, divisionOf(array, meshes))]),
    branches: branch.branches.map(below => plain(below, meshes)),
  };
}

describe('the trees of arrays', () => {
  it('are in the golden snapshots', () => {
    const { trees } = golden('transformer');
    expect(trees.map(tree => tree.name)).toContain('model');
  });

  it.each(goldens)('are those that %dist_shards prints, $name', ({ snapshot, trees }) => {
    const meshes = meshesOf(snapshot);
    const grown = trees.map(({ name }) => {
      const arrays = snapshot.arrays.filter(({ path }) => steps(path)[0] === name);
      return plain(grow(name, arrays), meshes);
    });
    expect(grown).toEqual(trees);
  });

  it.each(goldens)('have every array once, $name', ({ snapshot }) => {
    const leaves = forest(snapshot.arrays).flatMap(leavesOf);
    expect(new Set(leaves)).toEqual(new Set(snapshot.arrays));
    expect(leaves.length).toBe(snapshot.arrays.length);
  });

  it('join a name with the only branch below it', () => {
    const { arrays } = golden('transformer').snapshot;
    const kernel = arrays.filter(array => array.path === 'model.embed.kernel');
    expect(forest(kernel).map(branch => branch.name)).toEqual(['model.embed.kernel']);
  });

  it('have a total only where the meshes are known', () => {
    const { arrays } = golden('tour').snapshot;
    expect(fullest(arrays, new Map())).toBeNull();
  });

  it('end somewhere however deep they are', () => {
    const like = golden('tour').snapshot.arrays[0];
    const deep = { ...like, path: `t${'[0]'.repeat(30_000)}` } as NamedArray;
    const wide = { ...like, path: 't.x' } as NamedArray;
    expect(forest([deep, wide]).flatMap(leavesOf)).toEqual([deep, wide]);
  });
});

describe('a path', () => {
  it.each([
    ['w', ['w']],
    ['model.blocks[0].qkv', ['model', '.blocks', '[0]', '.qkv']],
    [`p['a.b']['c]d']["e['f"]`, ['p', `['a.b']`, `['c]d']`, `["e['f"]`]],
    [String.raw`p['it\'s'][('x', 1)]`, ['p', String.raw`['it\'s']`, `[('x', 1)]`]],
  ])('is taken apart and nothing is lost, %s', (path, expected) => {
    expect(steps(path)).toEqual(expected);
  });

  it('leads on only by a dot or a bracket', () => {
    expect(['w', 'w.a', 'w[0]', 'w2', 'v'].map(path => within(path, 'w'))).toEqual([
      ...[true, true, true, false, false],
    ]);
  });
});
