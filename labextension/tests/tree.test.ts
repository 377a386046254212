import { describe, expect, it } from 'vitest';

import { forest, type Branch } from '../src/view/model/branches';
import { OpenBranches, shownIn } from '../src/view/model/tree_rows';
import type { Array as NamedArray } from '../src/view/model/snapshot';
import { rowAfter } from '../src/view/sections/lists/rows';
import { treeRows, type ListRow } from '../src/view/model/tree_rows';

function array(path: string): NamedArray {
  const sharding = { kind: 'single' as const, device: '0:0', memory_kind: null };
  return { path, shape: [4], dtype: 'float32', nbytes: 16, sharding, processes: [] };
}

const layers = (name: string, count: number): NamedArray[] =>
  Array.from({ length: count }, (_, n) => [`${name}[${n}].w`, `${name}[${n}].v`])
    .flat()
    .map(array);

/** Return arrays that make a branch with `count` rows below it, none of them like another. */
const many = (name: string, count: number): NamedArray[] =>
  Array.from({ length: count }, (_, n) => array(`${name}.a${n}`));

const rowsOf = (roots: readonly Branch[], open: OpenBranches): readonly ListRow[] =>
  treeRows(roots, shownIn(open.states));

const written = (rows: readonly ListRow[]): string[] =>
  rows.map(({ level, name, kind }) => `${level} ${name}${kind === 'branch' ? '/' : ''}`);

function settled(arrays: readonly NamedArray[], open = new OpenBranches()) {
  const roots = forest(arrays);
  open.settle(roots);
  return { roots, open, rows: () => rowsOf(roots, open) };
}

describe('the rows of a tree', () => {
  it('are all there where they are few, with one for layers that are alike', () => {
    const { rows } = settled([...layers('m.blocks', 12), array('m.head'), array('w')]);
    expect(written(rows())).toEqual([
      ...['1 m/', '2 .blocks/', '3 [0–11]/', '4 .w', '4 .v', '2 .head', '1 w'],
    ]);
    expect(rows().map(row => row.parent)).toEqual([-1, 0, 1, 2, 2, 0, -1]);
    expect(rows()[5]).toMatchObject({ position: 1, count: 2 });
    expect(rows()[3]).toMatchObject({ alike: 12 });
  });

  it('are those of the outermost branches that fit where they are many', () => {
    const { rows } = settled([...many('a', 50), ...many('b.x', 20), ...many('b.y', 20)]);
    expect(written(rows())).toEqual(['1 a/', '1 b/', '2 .x/', '2 .y/']);
    const single = settled(many('c', 40));
    expect(single.rows().length).toBe(1);
    expect(settled(many('c', 39)).rows().length).toBe(40);
  });

  it('stay as they are when other arrays come', () => {
    const first = settled(many('a', 30));
    const later = settled([...many('a', 30), ...many('b', 30)], first.open);
    expect(written(later.rows()).filter(text => text.endsWith('/'))).toEqual(['1 a/', '1 b/']);
    expect(later.rows().length).toBe(32);
    const [a] = later.roots;
    if (a) later.open.set(a, 'closed');
    expect(settled(many('a', 2), later.open).rows().length).toBe(1);
  });

  it('are opened down to an array that is to be seen', () => {
    const arrays = [...layers('m.blocks', 12), ...many('m.x', 60)];
    const wanted = arrays.find(one => one.path === 'm.blocks[7].v');
    const { roots, open, rows } = settled(arrays);
    expect(written(rows())).toEqual(['1 m/', '2 .blocks/', '2 .x/']);
    if (wanted) open.reveal(roots, wanted);
    const shown = rows().filter(row => row.kind === 'array');
    expect(shown.map(row => row.array.path)).toEqual(['m.blocks[7].w', 'm.blocks[7].v']);
    const first = settled(arrays);
    const [of] = arrays;
    if (of) first.open.reveal(first.roots, of);
    expect(written(first.rows()).slice(0, 4)).toEqual(['1 m/', '2 .blocks/', '3 [0–11]/', '4 .w']);
  });

  it('show one array for all again where layers no longer are alike', () => {
    const { roots, open } = settled(layers('m', 2));
    const group = roots[0]?.branches[0];
    if (group) open.set(group, 'each');
    const two = [...layers('m', 2), array('m[1].z')];
    expect(written(settled(two, open).rows())).toEqual([
      ...['1 m/', '2 [0]/', '3 .w', '3 .v', '2 [1]/', '3 .w', '3 .v', '3 .z'],
    ]);
  });
});

it.each([
  ['ArrowDown', -1, 0],
  ['ArrowUp', 0, 0],
  ['End', 0, 2],
  ['PageDown', 0, 2],
  ['x', 0, null],
])('%s in a list of three moves from %i to %s', (key, from, to) => {
  expect(rowAfter(key, from, 3, 100)).toBe(to);
});
