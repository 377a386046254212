/** State of the view: what it knows and what the person chose, and the actions that change both. */

import { within } from './branches';
import { TORUS } from './grid';
import type { Values } from './messages';
import { divisionOf } from './pieces';
import type { Array as NamedArray, Snapshot } from './snapshot';

/** The choice of the array that is shown. Arrays with one path differ in the processes that have them. */
export type Pick =
  | { readonly kind: 'auto' }
  | { readonly kind: 'none' }
  | {
      readonly kind: 'array';
      readonly path: string;
      readonly processes: readonly number[];
      /** True if the view chose the array, false if the person did. */
      readonly auto: boolean;
    };

/** The pane beside the mesh. */
export type Side = 'program' | 'arrays' | 'layout';

export interface State {
  readonly snapshot: Snapshot | null;
  /** The mesh the person chose, or null to follow the picked array. */
  readonly mesh: string | null;
  readonly pick: Pick;
  /** Path of the array to pick as soon as there is an array at that path, or at one that leads on from it. */
  readonly focus: string | null;
  /** The device under the keyboard's ring, and whether the ring stays there. */
  readonly cursor: string | null;
  readonly pinned: boolean;
  /** The device under the pointer. */
  readonly hover: string | null;
  readonly query: string;
  /** The model whose layout is shown, as `keyOfModel` names it; null for the first. */
  readonly model: string | null;
  readonly side: Side;
  /** The chosen collectives, by their places in the program. */
  readonly chosen: readonly number[];
  readonly values: ShownValues;
  /** Whether the view is the answer to a start, which begins as a strip. */
  readonly brief: boolean;
  /** Whether the whole view is shown, and not the strip alone. */
  readonly open: boolean;
}

/** The values of an array, as far as the person has asked for them. */
export interface ShownValues {
  /** The path whose values were asked for and have not arrived yet. */
  readonly asked: string | null;
  readonly answer: Values | null;
  /** Whether a cell has run since the answer. */
  readonly old: boolean;
}

export type Action =
  | { readonly type: 'snapshot'; readonly snapshot: Snapshot }
  | { readonly type: 'pick'; readonly array: NamedArray | null }
  | { readonly type: 'mesh'; readonly id: string }
  | { readonly type: 'cursor'; readonly device: string | null }
  | { readonly type: 'pin'; readonly device: string }
  | { readonly type: 'hover'; readonly device: string | null }
  | { readonly type: 'find'; readonly query: string }
  | { readonly type: 'model'; readonly key: string }
  | { readonly type: 'side'; readonly side: Side }
  | { readonly type: 'choose'; readonly collectives: readonly number[] }
  | { readonly type: 'open'; readonly open: boolean }
  | { readonly type: 'ask'; readonly path: string }
  | { readonly type: 'values'; readonly values: Values };

export const initialState = (focus: string | null, brief = false): State => ({
  snapshot: null,
  mesh: null,
  pick: { kind: 'auto' },
  focus,
  cursor: null,
  pinned: false,
  hover: null,
  query: '',
  model: null,
  side: 'arrays',
  chosen: [],
  values: { asked: null, answer: null, old: false },
  brief,
  open: !brief,
});

/** Return the array that `pick` means among `arrays`, by path and processes, else by path alone. */
export function pickedArray(pick: Pick, arrays: readonly NamedArray[]): NamedArray | null {
  if (pick.kind !== 'array') return null;
  const versions = arrays.filter(array => array.path === pick.path);
  const processes = pick.processes.join();
  return versions.find(array => array.processes.join() === processes) ?? versions[0] ?? null;
}

/** Return the largest array that is cut into pieces, the first of several. */
function largestCut(arrays: readonly NamedArray[], snapshot: Snapshot): NamedArray | null {
  const meshes = new Map(snapshot.meshes.map(mesh => [mesh.id, mesh]));
  let largest: NamedArray | null = null;
  for (const array of arrays) {
    if (array.nbytes <= (largest?.nbytes ?? 0)) continue;
    if ((divisionOf(array, meshes)?.pieces ?? 1) > 1) largest = array;
  }
  return largest;
}

/**
 * Return the arrays in focus: those with exactly that path, else those in the branch of that path.
 *
 * Returns none without a focus.
 */
function focused({ focus }: State, arrays: readonly NamedArray[]): readonly NamedArray[] {
  if (focus === null) return [];
  const exact = arrays.filter(array => array.path === focus);
  return exact.length ? exact : arrays.filter(array => within(array.path, focus));
}

/**
 * Choose the array to show if the person chose none.
 *
 * That is the array in focus. If the focus is a branch, it is the largest array there that is cut,
 * else the largest there. If no array is in focus, it is the largest of all arrays that is cut.
 */
function chooseArray(state: State, snapshot: Snapshot): Pick {
  const asked = focused(state, snapshot.arrays);
  const exact = asked.find(array => array.path === state.focus);
  const chosen =
    exact ??
    largestCut(asked, snapshot) ??
    asked.reduce<NamedArray | null>((a, b) => (a && a.nbytes >= b.nbytes ? a : b), null) ??
    largestCut(snapshot.arrays, snapshot);
  return chosen
    ? { kind: 'array', path: chosen.path, processes: chosen.processes, auto: true }
    : { kind: 'auto' };
}

function takeSnapshot(state: State, snapshot: Snapshot): State {
  const { pick } = state;
  const automatic = pick.kind === 'auto' || (pick.kind === 'array' && pick.auto);
  const shown = pickedArray(pick, snapshot.arrays);
  // An array that the view chose stays until it is gone, so that the picture does not jump during a loop.
  const keeps =
    shown !== null && (state.focus === null || focused(state, snapshot.arrays).includes(shown));
  const another = snapshot.program?.text !== state.snapshot?.program?.text;
  return {
    ...state,
    snapshot,
    // A person asked to see a program, so a new one is shown.
    side: another && snapshot.program ? 'program' : state.side,
    chosen: another ? [] : state.chosen,
    values: aged(state.values, snapshot),
    pick: automatic && !keeps ? chooseArray(state, snapshot) : pick,
  };
}

/** Mark the values as old once a cell runs, or the session has stopped. */
function aged(values: ShownValues, { state }: Snapshot): ShownValues {
  const runs = state === 'running' || state === 'stopped';
  return runs && values.answer && !values.old ? { ...values, old: true } : values;
}

export function reduce(state: State, action: Action): State {
  switch (action.type) {
    case 'snapshot':
      return takeSnapshot(state, action.snapshot);
    case 'pick': {
      const { array } = action;
      const pick: Pick = array
        ? { kind: 'array', path: array.path, processes: array.processes, auto: false }
        : { kind: 'none' };
      // The devices have one colouring at a time, that of the last choice, so the chosen
      // collectives are dropped. The torus shows all arrays, so a person who looks at it stays
      // there.
      const stays = !array || state.mesh === TORUS;
      return { ...state, pick, chosen: [], mesh: stays ? state.mesh : null };
    }
    case 'mesh':
      return { ...state, mesh: action.id, cursor: null, pinned: false, hover: null };
    case 'cursor':
      return { ...state, cursor: action.device, pinned: false };
    case 'pin': {
      const released = state.pinned && state.cursor === action.device;
      return { ...state, cursor: released ? null : action.device, pinned: !released };
    }
    case 'hover':
      return { ...state, hover: action.device };
    case 'find':
      return { ...state, query: action.query };
    case 'model':
      return { ...state, model: action.key };
    case 'side':
      return { ...state, side: action.side };
    case 'choose':
      return { ...state, chosen: action.collectives };
    case 'open':
      return { ...state, open: action.open };
    case 'ask':
      return { ...state, values: { ...state.values, asked: action.path } };
    case 'values': {
      const { asked } = state.values;
      // The answer is for another view of this kernel.
      if (action.values.path !== asked) return state;
      return { ...state, values: { asked: null, answer: action.values, old: false } };
    }
  }
}
