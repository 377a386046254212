import { describe, expect, it } from 'vitest';

import { collectivesOf, exchangeOf } from '../src/view/model/exchange';
import {
  chosenText,
  collectiveText,
  groupsText,
  partnersRows,
} from '../src/view/model/exchange_text';
import { gridsOf, wrapsText } from '../src/view/model/grid';
import { marginText, memoryParts, wholeOf } from '../src/view/model/program_text';
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

it('has programs to look at', () => {
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

  it('colours the groups of a collective', () => {
    const [, scene] = shown(snapshot, [0]);
    expect(groupsText(scene)).toBe('2 groups of 4 devices');
    expect(chosenText(scene)).toBe('all-reduce along model');
    expect(scene.shares?.of.get('0:3')).toBe(0);
    expect(scene.shares?.of.get('1:4')).toBe(1);
    expect(partnersRows(scene, '0:1')).toEqual([['exchanges', 'with tpu 0, tpu 2, tpu 3']]);
  });

  it('is all of a line, which may have no groups in common', () => {
    const line = collectivesOf(program, 'programs.py:109');
    expect(line).toEqual([0, 2]);
    const [, scene] = shown(snapshot, line);
    expect(scene.shares?.groups).toEqual([]);
    expect(groupsText(scene)).toBe('');
    expect(chosenText(scene)).toBe('2 collectives of programs.py:109');
    expect(partnersRows(scene, '0:1')[0]?.[1]).toBe('with tpu 0, tpu 2, tpu 3, tpu 5');
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

  it('of a permutation says who sends to whom', () => {
    const ring = named('compiled_ring');
    const [, scene] = shown(ring.snapshot, [0]);
    expect(groupsText(scene)).toBe('1 chain or ring');
    expect(partnersRows(scene, '0:0')).toEqual([
      ['sends to', 'tpu 1'],
      ['receives', 'from tpu 7'],
    ]);
  });

  it('is said in one sentence', () => {
    const [first] = named('compiled_moved').program.collectives;
    expect(first && collectiveText(first)).toBe(
      'all-gather along data, 4 MB a device, 6 times, forward, programs.py:134, put in by the compiler',
    );
  });

  it('comes first on the page', () => {
    expect(shown(snapshot, [])[0].side).toBe('program');
  });
});

it('what is missing, or left, is said', () => {
  expect(marginText(named('compiled_ring').program)).toBe('20.4 KB too much');
  expect(marginText(named('compiled_step').program)).toBe('16 GB are left');
  expect(marginText(named('compiled_refused').program)).toBe('48.3 GB too much');
  expect(marginText({ ...named('compiled_step').program, limit: null })).toBe('');
});

describe('a torus', () => {
  const torus = {
    axes: (['z', 'y', 'x'] as const).map(name => ({ name, size: 4, type: 'auto' as const })),
    devices: Array.from({ length: 64 }, (_, i) => `0:${i}`),
    wraps: ['x', 'y', 'z'],
  };
  const [grid] = gridsOf([], [], torus);
  const room = { width: 480, height: 460, character: 6.6 };

  it('says which dimensions wrap around', () => {
    const rest = ' around: the last chip is linked to the first';
    expect(wrapsText(torus)).toBe(`x, y and z wrap${rest}`);
    expect(wrapsText({ ...torus, wraps: ['z'] })).toBe(`z wraps${rest}`);
    expect(wrapsText({ ...torus, wraps: [] })).toBe('no dimension wraps around');
    expect(wrapsText({ ...torus, wraps: null })).toContain('not known');
  });

  it('has a line at both ends of each row and column that wraps, within its canvas', () => {
    const layout = grid && layTiles(grid, room);
    if (!layout) throw new Error('does not fit');
    expect(layout.wraps.length).toBe(4 * (2 * 4 + 2 * 4));
    for (const { x, y, dx, dy } of layout.wraps) {
      for (const [at, most] of [
        [x, layout.width],
        [x + dx, layout.width],
        [y, layout.height],
        [y + dy, layout.height],
      ] as const) {
        expect(at).toBeGreaterThanOrEqual(0);
        expect(at).toBeLessThanOrEqual(most);
      }
    }
    const only = layTiles({ ...grid, torus: { ...torus, wraps: ['z'] } }, room);
    expect(only?.wraps).toEqual([]);
  });

  it('of the largest pod is drawn chip by chip', () => {
    const sizes = [28, 20, 16];
    const large: typeof torus = {
      ...torus,
      axes: (['z', 'y', 'x'] as const).map((name, i) => ({
        name,
        size: sizes[i] ?? 0,
        type: 'auto',
      })),
      devices: Array.from({ length: 8960 }, (_, i) => `0:${i}`),
    };
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
