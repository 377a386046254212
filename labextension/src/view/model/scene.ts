/** The scene: all that is drawn, computed from the state. Parts that did not change keep their identity. */

import { exchangeOf, type Exchange, type Shares } from './exchange';
import { deviceNumbers, type DeviceNumbers } from './format';
import { chooseGrid, gridsOf, type Grid } from './grid';
import { holdingOf, type Holding } from './pieces';
import type { Array as NamedArray, Device, Mesh, Process, Snapshot } from './snapshot';
import { pickedArray, type State } from './state';

/** The session's devices by key and processes by id, and its hosts. */
export interface Directory {
  readonly devices: ReadonlyMap<string, Device>;
  readonly numbers: DeviceNumbers;
  readonly processes: ReadonlyMap<number, Process>;
  readonly hosts: readonly string[];
  /** Each process's host as an index into `hosts`. */
  readonly hostOf: ReadonlyMap<number, number>;
}

export interface Scene {
  readonly state: State;
  readonly snapshot: Snapshot;
  readonly directory: Directory;
  readonly meshes: ReadonlyMap<string, Mesh>;
  readonly grids: readonly Grid[];
  readonly grid: Grid;
  readonly array: NamedArray | null;
  readonly holding: Holding | null;
  /** The exchange of the chosen collectives. */
  readonly exchange: Exchange | null;
  /** Groups of devices by colour: the groups of the exchange, else the pieces of the array. */
  readonly shares: Shares | null;
  /** Fullness of each device, 0 to 1; devices that report nothing are missing. */
  readonly fullness: Fullness;
}

export interface Fullness {
  readonly of: ReadonlyMap<string, number>;
  /** The meaning of a full bar: the device's limit, or as much as the fullest device has. */
  readonly meaning: 'limit' | 'fullest' | 'nothing';
}

function directoryOf(
  devices: ReadonlyMap<string, Device>,
  processes: readonly Process[],
): Directory {
  const hosts: string[] = [];
  const numbers = new Map<string, number>();
  const hostOf = new Map<number, number>();
  for (const { process_id, host } of processes) {
    let number = numbers.get(host);
    if (number === undefined) numbers.set(host, (number = hosts.push(host) - 1));
    hostOf.set(process_id, number);
  }
  const byId = new Map(processes.map(process => [process.process_id, process]));
  return { devices, numbers: deviceNumbers(devices.values()), processes: byId, hosts, hostOf };
}

/**
 * Return memory in use as a part of the limit if the platform gives both, else live bytes as a part
 * of the fullest device's.
 */
function fullnessOf(devices: readonly Device[]): Fullness {
  const of = new Map<string, number>();
  for (const { key, memory } of devices) {
    if (memory?.bytes_limit && memory.bytes_in_use !== null) {
      of.set(key, Math.min(1, memory.bytes_in_use / memory.bytes_limit));
    }
  }
  if (of.size) return { of, meaning: 'limit' };
  let most = 0;
  for (const device of devices) most = Math.max(most, device.live_bytes ?? 0);
  if (!most) return { of, meaning: 'nothing' };
  for (const { key, live_bytes } of devices)
    if (live_bytes !== null) of.set(key, live_bytes / most);
  return { of, meaning: 'fullest' };
}

/**
 * Return a function that returns the same list while the devices are the same, although their bytes
 * change with every frame.
 */
function steadyDevices(): (devices: readonly Device[]) => readonly Device[] {
  let listed: readonly Device[] = [];
  return devices => {
    const same =
      devices.length === listed.length && devices.every((d, i) => d.key === listed[i]?.key);
    if (!same) listed = devices;
    return listed;
  };
}

const sharesOf = (exchange: Exchange | null, holding: Holding | null): Shares | null =>
  exchange?.shares ?? (holding && { of: holding.of, groups: holding.pieces });

/** Return `compute` with a memory: it computes again only if an argument differs from the call before. */
export function remember<Arguments extends readonly unknown[], Result>(
  compute: (...inputs: Arguments) => Result,
): (...inputs: Arguments) => Result {
  let last: { readonly inputs: Arguments; readonly result: Result } | null = null;
  return (...inputs) => {
    if (last?.inputs.every((input, i) => Object.is(input, inputs[i]))) return last.result;
    last = { inputs, result: compute(...inputs) };
    return last.result;
  };
}

/** Return a function from state to scene that recomputes only what a change touches. */
export function sceneMaker(): (state: State, snapshot: Snapshot) => Scene {
  const meshesById = remember(
    (meshes: readonly Mesh[]) => new Map(meshes.map(mesh => [mesh.id, mesh])),
  );
  const devicesByKey = remember(
    (devices: readonly Device[]) => new Map(devices.map(device => [device.key, device])),
  );
  const directory = remember(directoryOf);
  const sameDevices = steadyDevices();
  const grids = remember(gridsOf);
  const fullness = remember(fullnessOf);
  const picked = remember(pickedArray);
  const holding = remember((array: NamedArray | null, meshes: ReadonlyMap<string, Mesh>) =>
    array ? holdingOf(array, meshes) : null,
  );
  const exchange = remember(exchangeOf);
  const shares = remember(sharesOf);
  return (state, snapshot) => {
    const array = picked(state.pick, snapshot.arrays);
    const meshes = meshesById(snapshot.meshes);
    const available = grids(snapshot.meshes, sameDevices(snapshot.devices), snapshot.torus);
    const arrayMesh = array?.sharding.kind === 'named' ? array.sharding.mesh : null;
    const held = holding(array, meshes);
    const exchanged = exchange(snapshot.program, meshes, state.chosen);
    return {
      state,
      snapshot,
      directory: directory(devicesByKey(snapshot.devices), snapshot.processes),
      meshes,
      grids: available,
      grid: chooseGrid(available, snapshot, state.mesh, arrayMesh),
      array,
      holding: held,
      exchange: exchanged,
      shares: shares(exchanged, held),
      fullness: fullness(snapshot.devices),
    };
  };
}

/** Return whether nothing runs: the snapshot is of a plan, or of a program that was compiled or refused. */
export const isOnPaper = ({ state }: Pick<Snapshot, 'state'>): boolean =>
  state === 'planned' || state === 'compiled' || state === 'refused';

/** Return whether the device's process is lost. */
export function isLost(scene: Pick<Scene, 'directory'>, key: string): boolean {
  const device = scene.directory.devices.get(key);
  const id = device?.process_id ?? Number(key.split(':')[0]);
  return scene.directory.processes.get(id)?.state === 'lost';
}
