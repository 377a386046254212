import { describe, expect, it } from 'vitest';

import { collectivesOf, exchangeOf } from '../src/view/model/exchange';
import {
  chosenText,
  collectiveText,
  groupsText,
  partnersRows,
} from '../src/view/model/device_text';
import { gridsOf, wrapsText } from '../src/view/model/grid';
import { memoryParts, wholeOf } from '../src/view/sections/program/program';
import { sceneMaker, type Scene } from '../src/view/model/scene';
import type { ShownProgram, Snapshot } from '../src/view/model/snapshot';
import { initialState, reduce, type State } from '../src/view/model/state';
import { layTiles } from '../src/view/layout/tile_layout';
import { goldens, meshesOf, type Golden } from './golden';

const compiled = goldens.filter(one => one.name.startsWith('compiled'));

function named(name: string): Golden & { program: ShownProgram } {
  const golden = goldens.find(one => one.name === name);
  if (!golden?.snapshot.program) throw new Error(`no program in ${name}`);
  return { ...golden, program: golden.snapshot.program };
}

function shown(snapshot: Snapshot, collectives: readonly number[]): [State, Scene] {
  const first = reduce(initialState(null), { type: 'snapshot', snapshot });
  const state = reduce(first, { type: 'choose', collectives });
  return [state, sceneMaker()(state, snapshot)];
}

it('programs are among the golden snapshots', () => {
  expect(compiled.length).toBeGreaterThan(3);
});

describe.each(compiled)('of $name', ({ snapshot, exchanges = [] }) => {
  const { program } = snapshot;

  it('each collective has the partners that theory says', () => {
    expect(program?.collectives.length).toBe(exchanges.length);
    exchanges.forEach((expected, i) => {
      const found = exchangeOf(program, meshesOf(snapshot), [i]);
      for (const [key, partners] of Object.entries(expected)) {
        const { to, from } = found?.partnersOf(key) ?? { to: [], from: [] };
        expect([...new Set([...to, ...from])].sort()).toEqual([...partners].sort());
      }
    });
  });

  it('the parts of the memory are what it needs', () => {
    if (!program?.memory) return;
    const sum = memoryParts(program).reduce((bytes, part) => bytes + part.bytes, 0);
    expect(sum).toBe(program.needed);
    expect(wholeOf(program)).toBe(Math.max(program.needed ?? 0, program.limit ?? 0));
  });
});

describe('what is chosen', () => {
  const { snapshot, program } = named('compiled_step');

  it.each<[string, readonly number[], string, string, readonly string[]]>([
    [
      'compiled_step',
      [0],
      'all-reduce along model',
      '2 groups of 4 devices',
      ['exchanges with p0 · d0, p0 · d2, p0 · d3'],
    ],
    // All of a line, which have no groups in common.
    [
      'compiled_step',
      [0, 2],
      '2 collectives of programs.py:109',
      '',
      ['exchanges with p0 · d0, p0 · d2, p0 · d3, p1 · d1'],
    ],
    [
      'compiled_ring',
      [0],
      'collective-permute along seq',
      '1 chain or ring',
      ['sends to p0 · d2', 'receives from p0 · d0'],
    ],
  ])('in %s %j is said in words', (name, collectives, chosen, groups, partners) => {
    const [, scene] = shown(named(name).snapshot, collectives);
    expect([chosenText(scene), groupsText(scene)]).toEqual([chosen, groups]);
    expect(partnersRows(scene, '0:1').map(row => row.join(' '))).toEqual(partners);
  });

  it('may be all of a line', () => {
    expect(collectivesOf(program, 'programs.py:109')).toEqual([0, 2]);
    expect(collectivesOf(program, '')).toEqual([]);
  });

  it('is nothing after Escape, and after another program', () => {
    const [state] = shown(snapshot, [0]);
    const none = reduce(state, { type: 'choose', collectives: [] });
    expect(sceneMaker()(none, snapshot).exchange).toBeNull();
    const other = reduce(state, { type: 'snapshot', snapshot: named('compiled_ring').snapshot });
    expect(other.chosen).toEqual([]);
    expect(reduce(state, { type: 'snapshot', snapshot }).chosen).toEqual([0]);
    expect(reduce(state, { type: 'pick', array: null }).chosen).toEqual([]);
  });

  it('is shown to be unknown where it is not known who takes part', () => {
    const collectives = program.collectives.map(one => ({ ...one, grouping: null }));
    const [, scene] = shown({ ...snapshot, program: { ...program, collectives } }, [0]);
    expect(scene.exchange).toBeNull();
  });

  it('is said in one sentence', () => {
    const [first] = named('compiled_moved').program.collectives;
    expect(first && collectiveText(first)).toBe(
      'all-gather along data, 4 MB per device, 6 times, forward, programs.py:134, inserted by the compiler',
    );
  });

  it('comes first on the page', () => {
    expect(shown(snapshot, [])[0].side).toBe('program');
  });
});

describe('a torus', () => {
  const torus = {
    axes: (['z', 'y', 'x'] as const).map(name => ({ name, size: 4, type: 'auto' as const })),
    devices: Array.from({ length: 64 }, (_, i) => `0:${i}`),
    wraps: ['x', 'y', 'z'],
  };
  const [grid] = gridsOf([], [], torus);
  const room = { width: 480, height: 460, character: 6.6 };

  it.each([
    [['x', 'y', 'z'], 'x, y and z wrap around: the last chip is linked to the first'],
    [['z'], 'z wraps around: the last chip is linked to the first'],
    [[], 'no dimension wraps around'],
    [null, 'it is not known which dimensions wrap around'],
  ])('says which dimensions wrap around: %j', (wraps, text) => {
    expect(wrapsText({ ...torus, wraps })).toBe(text);
  });

  it('has a line at both ends of each row and column that wraps, within its canvas', () => {
    const layout = grid && layTiles(grid, room);
    if (!layout) throw new Error('does not fit');
    expect(layout.wraps.length).toBe(4 * (2 * 4 + 2 * 4));
    const { width, height } = layout;
    for (const { x, y, dx, dy } of layout.wraps) {
      expect(Math.min(x, x + dx, y, y + dy)).toBeGreaterThanOrEqual(0);
      expect(Math.max(x, x + dx)).toBeLessThanOrEqual(width);
      expect(Math.max(y, y + dy)).toBeLessThanOrEqual(height);
    }
    const only = layTiles({ ...grid, torus: { ...torus, wraps: ['z'] } }, room);
    expect(only?.wraps).toEqual([]);
  });

  it('of the largest pod is drawn chip by chip', () => {
    const axes = torus.axes.map((axis, i) => ({ ...axis, size: [28, 20, 16][i] ?? 0 }));
    const devices = Array.from({ length: 8960 }, (_, i) => `0:${i}`);
    const large = { ...torus, axes, devices };
    const [found] = gridsOf([], [], large);
    const layout = found && layTiles(found, { ...room, width: 466, height: 720 }, 4);
    expect(layout?.side).toBe(4);
    expect(new Set(Array.from(layout?.x ?? [], (x, i) => `${x} ${layout?.y[i] ?? 0}`)).size).toBe(
      8960,
    );
    // Rows this low have no names, which would lie over the block beside them.
    expect(layout?.labels.every(label => label.text.startsWith('z '))).toBe(true);
  });
});
