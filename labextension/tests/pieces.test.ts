import { describe, expect, it } from 'vitest';

import { divisionOf, holdingOf } from '../src/view/model/pieces';
import { FILL_COUNT, fillOf, isRamp } from '../src/view/paint/piece_style';
import { goldens, meshesOf } from './golden';

const cases = goldens.flatMap(({ name, snapshot, expected }) =>
  snapshot.arrays.map((array, i) => ({
    name: `${name}: ${array.path} #${i}`,
    array,
    meshes: meshesOf(snapshot),
    expected: expected[i],
  })),
);

describe('who holds what', () => {
  it('is known of arrays of every kind', () => {
    expect(cases.length).toBeGreaterThan(50);
  });

  it.each(cases)('is what the framework says, $name', ({ array, meshes, expected }) => {
    const holding = holdingOf(array, meshes);
    const slices = Object.fromEntries(
      [...(holding?.of ?? [])].map(([key, number]) => [key, holding?.pieces[number]?.slices]),
    );
    expect(slices).toEqual(expected?.slices);
    const sorted = holding?.pieces.map(piece => ({ ...piece, devices: [...piece.devices].sort() }));
    expect(sorted).toEqual(
      expected?.pieces.map(piece => ({ ...piece, devices: [...piece.devices].sort() })),
    );
  });

  it.each(cases)('is counted without visiting devices, $name', ({ array, meshes, expected }) => {
    const division = divisionOf(array, meshes);
    expect(division?.pieces).toBe(expected?.pieces.length);
    expect(division?.copies).toBe(Math.max(...(expected?.pieces ?? []).map(p => p.devices.length)));
  });

  it('answers null where the mesh is not known', () => {
    const array = cases.find(c => c.array.sharding.kind === 'named')?.array;
    expect(array && holdingOf(array, new Map())).toBeNull();
    expect(array && divisionOf(array, new Map())).toBeNull();
  });

  it('gives a dimension of no elements one empty piece', () => {
    const mesh = {
      id: 'm',
      axes: [{ name: 'a', size: 2, type: 'auto' as const }],
      devices: ['x', 'y'],
    };
    const sharding = {
      kind: 'named' as const,
      mesh: 'm',
      spec: [['a']],
      unreduced: [],
      memory_kind: null,
    };
    const array = { path: 'e', shape: [0], dtype: 'float32', nbytes: 0, sharding, processes: [] };
    const holding = holdingOf(array, new Map([['m', mesh]]));
    expect(holding?.pieces).toEqual([{ slices: [[0, 0]], addend: null, devices: ['x', 'y'] }]);
  });
});

describe.each(['light', 'dark'] as const)('the look of pieces, %s', theme => {
  it.each(cases)('is shared by two devices exactly when they hold one piece, $name', c => {
    const holding = holdingOf(c.array, c.meshes);
    const pieces = holding?.pieces ?? [];
    const looks = pieces.map((_, i) => fillOf(i, pieces.length, theme));
    expect(new Set(looks).size).toBe(pieces.length);
    const expected = c.expected?.pieces ?? [];
    for (const piece of expected) {
      const numbers = new Set(piece.devices.map(key => holding?.of.get(key)));
      expect(numbers.size).toBe(1);
    }
  });

  it('is a colour that no other of very many has, and needs numbers once they are no longer far apart', () => {
    const fills = Array.from({ length: 8960 }, (_, i) => fillOf(i, 8960, theme));
    expect(new Set(fills).size).toBe(8960);
    expect([FILL_COUNT, FILL_COUNT + 1].map(isRamp)).toEqual([false, true]);
  });
});
