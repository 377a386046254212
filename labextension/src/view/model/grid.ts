/** Grids that can be shown: the session's meshes, the torus of a pod, and all devices if no mesh has them all. */

import { meshText } from './format';
import { grouped } from './lists';
import type { Axis, Device, Mesh, Process, Snapshot, Torus } from './snapshot';

/** Devices in a grid with named axes; the last axis varies fastest. */
export interface Grid {
  readonly id: string;
  readonly label: string;
  readonly axes: readonly Pick<Axis, 'name' | 'size'>[];
  readonly devices: readonly string[];
  /** The user's mesh; null for the grid of all devices and for a torus. */
  readonly mesh: Mesh | null;
  /** The torus of a pod if this grid shows one, else null. */
  readonly torus: Torus | null;
}

/** Id and label of the grid of all devices. */
const ALL_DEVICES = 'All devices';

/** Return the grid of all devices by process, since nothing else is known about their order. */
function everyDevice(devices: readonly Device[]): Grid {
  const sorted = [...devices].sort((a, b) => a.process_id - b.process_id || a.id - b.id);
  const processes = grouped(sorted, device => device.process_id);
  const each = new Set([...processes.values()].map(({ length }) => length));
  const perProcess = [...each][0] ?? 0;
  const axes =
    each.size === 1
      ? [
          { name: 'process', size: processes.size },
          { name: 'device', size: perProcess },
        ]
      : [{ name: 'device', size: sorted.length }];
  return {
    id: ALL_DEVICES,
    label: ALL_DEVICES,
    axes,
    devices: sorted.map(device => device.key),
    mesh: null,
    torus: null,
  };
}

/** The id of the grid that is a pod's torus. */
export const TORUS = 'torus';

/** Return the grid of a pod's devices as its network connects them. */
function torusGrid(torus: Torus): Grid {
  const sizes = [...torus.axes].reverse().map(axis => `${axis.name}=${axis.size}`);
  const label = `torus ${sizes.join(' × ')}`;
  return { id: TORUS, label, axes: torus.axes, devices: torus.devices, mesh: null, torus };
}

/** Return which dimensions of a torus wrap around, `x and y wrap around`, or that this is not known. */
export function wrapsText({ wraps }: Torus): string {
  if (wraps === null) return 'it is not known which dimensions wrap around';
  const names = [...wraps].sort();
  if (!names.length) return 'no dimension wraps around';
  const last = names[names.length - 1] ?? '';
  const said = names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${last}` : last;
  return `${said} ${names.length > 1 ? 'wrap' : 'wraps'} around: the last chip is linked to the first`;
}

/** Return the type of a mesh's axes, `explicit`; if they differ, the type of each: `data explicit, model auto`. */
export function axisTypesText(mesh: Mesh): string {
  const types = new Set(mesh.axes.map(axis => axis.type));
  if (types.size <= 1) return [...types][0] ?? '';
  return mesh.axes.map(axis => `${axis.name} ${axis.type}`).join(', ');
}

/** Return the labels of meshes; meshes with the same axes get their types too and, if necessary, a number. */
function labels(meshes: readonly Mesh[]): string[] {
  const plain = meshes.map(meshText);
  const typed = meshes.map((mesh, i) => {
    const alone = plain.filter(label => label === plain[i]).length === 1;
    return alone ? (plain[i] ?? '') : `${plain[i] ?? ''} ${axisTypesText(mesh)}`;
  });
  return typed.map((label, i) => {
    const before = typed.slice(0, i).filter(other => other === label).length;
    return before ? `${label} (${before + 1})` : label;
  });
}

/** Return the grids that can be shown, in order. Never empty. */
export function gridsOf(
  meshes: readonly Mesh[],
  devices: readonly Device[],
  torus: Torus | null,
): readonly Grid[] {
  const names = labels(meshes);
  const grids: Grid[] = meshes.map((mesh, i) => ({
    id: mesh.id,
    label: names[i] ?? mesh.id,
    axes: mesh.axes.length ? mesh.axes : [{ name: 'device', size: 1 }],
    devices: mesh.devices,
    mesh,
    torus: null,
  }));
  if (torus) return [...grids, torusGrid(torus)];
  const covered = meshes.some(mesh => {
    const held = new Set(mesh.devices);
    return devices.every(device => held.has(device.key));
  });
  return covered ? grids : [...grids, everyDevice(devices)];
}

/** Return the id of the mesh that most processes have in context; null if none has one. */
function contextMesh(processes: readonly Process[]): string | null {
  const named = processes.filter(process => process.context_mesh);
  const votes = [...grouped(named, process => process.context_mesh)];
  return votes.sort((a, b) => b[1].length - a[1].length)[0]?.[0] ?? null;
}

/**
 * Return the grid to show: the person's choice, else the picked array's mesh, else the mesh in
 * context, else the mesh of the distribution that is set, else the grid with the most devices.
 */
export function chooseGrid(
  grids: readonly Grid[],
  snapshot: Snapshot,
  chosen: string | null,
  arrayMesh: string | null,
): Grid {
  const byId = new Map(grids.map(grid => [grid.id, grid]));
  for (const id of [
    chosen,
    arrayMesh,
    contextMesh(snapshot.processes),
    snapshot.distributions[0]?.mesh ?? null,
  ]) {
    const grid = id === null ? undefined : byId.get(id);
    if (grid) return grid;
  }
  const largest = [...grids].sort((a, b) => b.devices.length - a.devices.length)[0];
  return largest ?? everyDevice([]);
}
