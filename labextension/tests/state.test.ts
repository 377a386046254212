import { describe, expect, it } from 'vitest';

import { sceneMaker } from '../src/view/model/scene';
import type { Snapshot } from '../src/view/model/snapshot';
import { initialState, pickedArray, reduce, type State } from '../src/view/model/state';
import { golden } from './golden';

const begin = (snapshot: Snapshot, focus: string | null = null): State =>
  reduce(initialState(focus), { type: 'snapshot', snapshot });

const picked = (state: State): string | undefined =>
  pickedArray(state.pick, state.snapshot?.arrays ?? [])?.path;

const shownMesh = (state: State): string | undefined =>
  state.snapshot ? sceneMaker()(state, state.snapshot).grid.label : undefined;

describe('the picked array', () => {
  const tour = golden('tour').snapshot;
  const without = (path: string): Snapshot => ({
    ...tour,
    arrays: tour.arrays.filter(array => array.path !== path),
  });

  it('is at first the largest that is cut into pieces', () => {
    expect(picked(begin(tour))).toBe('params.dense1.kernel');
    expect(picked(begin(golden('replicated').snapshot))).toBeUndefined();
  });

  it('is the one in focus, also when that comes later', () => {
    expect(picked(begin(tour, 'batch'))).toBe('batch');
    const early = begin(without('batch'), 'batch');
    expect(picked(early)).toBe('params.dense1.kernel');
    expect(picked(reduce(early, { type: 'snapshot', snapshot: tour }))).toBe('batch');
  });

  it('is the largest that is cut of a branch in focus, also when that comes later', () => {
    const model = golden('transformer').snapshot;
    expect(picked(begin(model, 'model'))).toBe('model.head.kernel');
    expect(picked(begin(model, 'model.blocks[12]'))).toBe('model.blocks[12].mlp.kernel');
    expect(picked(begin(model, 'model.embed'))).toBe('model.embed.kernel');
    expect(picked(begin(model, 'w'))).toBe('w');
    const early = begin(tour, 'model');
    expect(picked(early)).toBe('params.dense1.kernel');
    const later = reduce(early, { type: 'snapshot', snapshot: model });
    expect(picked(later)).toBe('model.head.kernel');
    expect(picked(reduce(later, { type: 'snapshot', snapshot: model }))).toBe('model.head.kernel');
  });

  it('stays while it is there, and is chosen anew when it is gone', () => {
    const early = begin(without('params.dense1.kernel'));
    const later = reduce(early, { type: 'snapshot', snapshot: tour });
    expect(picked(later)).toBe(picked(early));
    const gone = without(picked(early) ?? '');
    expect(picked(reduce(early, { type: 'snapshot', snapshot: gone }))).toBe(
      'params.dense1.kernel',
    );
  });

  it('that a person chose is never replaced by another', () => {
    const batch = tour.arrays.find(array => array.path === 'batch') ?? null;
    const chosen = reduce(begin(tour), { type: 'pick', array: batch });
    expect(
      picked(reduce(chosen, { type: 'snapshot', snapshot: without('batch') })),
    ).toBeUndefined();
    const none = reduce(chosen, { type: 'pick', array: null });
    expect(picked(reduce(none, { type: 'snapshot', snapshot: without('batch') }))).toBeUndefined();
  });

  it('is one of several versions where processes differ', () => {
    const snapshot = golden('out_of_step').snapshot;
    const second = snapshot.arrays.filter(array => array.path === 'w')[1] ?? null;
    const state = reduce(begin(snapshot), { type: 'pick', array: second });
    expect(pickedArray(state.pick, snapshot.arrays)).toBe(second);
  });
});

describe('the shown mesh', () => {
  const snapshot = golden('several_meshes').snapshot;

  it('is that of the picked array until a person chooses', () => {
    const turned = snapshot.arrays.find(array => array.path === 'state.turned') ?? null;
    const state = reduce(begin(snapshot), { type: 'pick', array: turned });
    expect(shownMesh(state)).toBe('data=4 × model=2 auto');
    const flat = snapshot.meshes[0]?.id ?? '';
    expect(shownMesh(reduce(state, { type: 'mesh', id: flat }))).toBe('all=8');
  });

  it('stays the torus when an array is picked', () => {
    const { devices } = snapshot;
    const axes = [{ name: 'x', size: devices.length, type: 'auto' as const }];
    const torus = { axes, devices: devices.map(({ key }) => key), wraps: ['x'] };
    const seen = reduce(begin({ ...snapshot, torus }), { type: 'mesh', id: 'torus' });
    const turned = snapshot.arrays.find(array => array.path === 'state.turned') ?? null;
    const chosen = reduce(seen, { type: 'pick', array: turned });
    expect([picked(chosen), shownMesh(chosen)]).toEqual(['state.turned', 'torus x=8']);
  });

  it('is all devices by process where there is no mesh', () => {
    expect(shownMesh(begin(golden('single_device').snapshot))).toBe('All devices');
  });
});
