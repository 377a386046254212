/** Texts about a device and what it holds: for its card, its details, the table and screen readers. */

import { bytesText, deviceText, slicesText } from './format';
import type { Grid } from './grid';
import type { HeldPiece } from './pieces';
import { isLost, isOnPaper, type Scene } from './scene';

/** Return the name of a device, `cpu 2048`; of a device that no process has reported, the key. */
export function nameOf(scene: Scene, key: string): string {
  const device = scene.directory.devices.get(key);
  return device ? deviceText(device) : `device ${key}`;
}

/** Return the host name of a device's process; empty if it is not known. */
export function hostOf(scene: Scene, key: string): string {
  return scene.directory.processes.get(processOf(key))?.host ?? '';
}

/** Return a device's process id, which is the first part of its key. */
export const processOf = (key: string): number => Number(key.split(':')[0]);

/**
 * Return the host of a device, or its process if no host is known.
 *
 * If devices are many, one cell stands for all devices with the same text.
 */
export const unitOf = (scene: Scene, key: string): string =>
  hostOf(scene, key) || `process ${processOf(key)}`;

/** Return the place in the grid in words: `data 1, model 0`. */
export function coordinatesText(grid: Grid, position: number): string {
  const parts: string[] = [];
  let rest = position;
  for (const axis of [...grid.axes].reverse()) {
    parts.unshift(`${axis.name} ${rest % axis.size}`);
    rest = Math.floor(rest / axis.size);
  }
  return parts.join(', ');
}

/** Return `sum 2 of 4` for a value that is still to be added to others, else an empty text. */
export function addendText(piece: HeldPiece, addends: number): string {
  return piece.addend === null ? '' : `sum ${piece.addend + 1} of ${addends}`;
}

/** The part of the picked array that a device holds. */
export interface Held {
  readonly kind: 'nothing picked' | 'lost' | 'not here' | 'piece';
  /** Number of the piece; -1 unless `kind` is `piece`. */
  readonly number: number;
  readonly piece: HeldPiece | null;
}

export function heldBy(scene: Scene, key: string): Held {
  if (isLost(scene, key)) return { kind: 'lost', number: -1, piece: null };
  if (!scene.array) return { kind: 'nothing picked', number: -1, piece: null };
  const number = scene.holding?.of.get(key) ?? -1;
  const piece = scene.holding?.pieces[number] ?? null;
  return piece ? { kind: 'piece', number, piece } : { kind: 'not here', number: -1, piece: null };
}

/**
 * Return what a device holds: `[0:128, 0:128]`, `not here`, `lost with process 3`; empty if no
 * array is picked.
 */
export function heldText(scene: Scene, key: string): string {
  const held = heldBy(scene, key);
  if (held.kind === 'lost') return `lost with process ${processOf(key)}`;
  if (!held.piece) return held.kind === 'not here' ? 'not here' : '';
  const parts = [slicesText(held.piece.slices)];
  const addend = addendText(held.piece, scene.holding?.addends ?? 1);
  if (addend) parts.push(addend);
  if (scene.holding?.own) parts.push('its own');
  return parts.join(' ');
}

/** Return the memory of a device: `512 KB live`, `62 GB of 95 GB`; empty if nothing is known. */
export function memoryText(scene: Scene, key: string): string {
  const device = scene.directory.devices.get(key);
  const memory = device?.memory;
  if (isOnPaper(scene.snapshot) && memory?.bytes_limit === null)
    return memory.bytes_in_use === null ? '' : bytesText(memory.bytes_in_use);
  if (memory?.bytes_limit && memory.bytes_in_use !== null) {
    return `${bytesText(memory.bytes_in_use)} of ${bytesText(memory.bytes_limit)}`;
  }
  const live = device?.live_bytes ?? null;
  return live === null ? '' : `${bytesText(live)} live`;
}

/** Return everything about a device in one sentence, for a screen reader. */
export function describeDevice(scene: Scene, position: number): string {
  const key = scene.grid.devices[position] ?? '';
  const held = heldText(scene, key);
  const parts = [
    nameOf(scene, key),
    coordinatesText(scene.grid, position),
    `process ${processOf(key)}${hostOf(scene, key) ? ` on ${hostOf(scene, key)}` : ''}`,
    held && scene.array && held.startsWith('[') ? `holds ${held} of ${scene.array.path}` : held,
    memoryText(scene, key),
  ];
  return parts.filter(Boolean).join(', ');
}
