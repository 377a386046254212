/** Texts about a device, what it holds and with whom it exchanges data: for cards, details, tables, screen readers. */

import { bytesText, countText, deviceShort, deviceText, slicesText } from './format';
import type { Grid } from './grid';
import { placeIn } from './lists';
import type { HeldPiece } from './pieces';
import { isLost, isOnPaper, type Scene } from './scene';
import type { ShownCollective } from './snapshot';

/** Return the name of a device: `process 1 · device 0`. */
export const nameOf = (scene: Scene, key: string): string =>
  deviceText(key, scene.directory.numbers);

/** Return the name of a device for narrow places: `p1 · d0`. */
export const shortNameOf = (scene: Scene, key: string): string =>
  deviceShort(key, scene.directory.numbers);

/** Return the platform and JAX's own id of a device, `cpu, JAX id 2048`, for details. */
export function idText(scene: Scene, key: string): string {
  const device = scene.directory.devices.get(key);
  return device ? `${device.platform}, JAX id ${device.id}` : '';
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
export const coordinatesText = ({ axes }: Grid, position: number): string => {
  const sizes = axes.map(axis => axis.size);
  return placeIn(sizes, position)
    .map((at, i) => `${axes[i]?.name ?? ''} ${at}`)
    .join(', ');
};

/** Return `partial sum 2 of 4` for a value that is still to be added to others, else an empty text. */
export function addendText(piece: HeldPiece, addends: number): string {
  return piece.addend === null ? '' : `partial sum ${piece.addend + 1} of ${addends}`;
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

/** Return the memory of a device: `512 KB`, `62 GB of 95 GB`; empty if nothing is known. */
export function memoryText(scene: Scene, key: string): string {
  const device = scene.directory.devices.get(key);
  const memory = device?.memory;
  if (isOnPaper(scene.snapshot) && memory?.bytes_limit === null)
    return memory.bytes_in_use === null ? '' : bytesText(memory.bytes_in_use);
  if (memory?.bytes_limit && memory.bytes_in_use !== null) {
    return `${bytesText(memory.bytes_in_use)} of ${bytesText(memory.bytes_limit)}`;
  }
  const live = device?.live_bytes ?? null;
  return live === null ? '' : bytesText(live);
}

/** Return what the card of a device does not show. */
export function aboutDevice(scene: Scene, position: number): string {
  const key = scene.grid.devices[position] ?? '';
  const shard = scene.array && heldText(scene, key).startsWith('[');
  const of = shard ? `shard of ${scene.array.path}` : '';
  return [coordinatesText(scene.grid, position), of, memoryText(scene, key)]
    .filter(Boolean)
    .join(', ');
}

/** Return everything about a device in one sentence, for a screen reader. */
export function describeDevice(scene: Scene, position: number): string {
  const key = scene.grid.devices[position] ?? '';
  const host = hostOf(scene, key);
  const parts = [nameOf(scene, key), host && `on ${host}`, heldText(scene, key)];
  return [...parts, aboutDevice(scene, position)].filter(Boolean).join(', ');
}

/** Most devices that are listed by name; the rest are counted. */
const MOST_NAMED = 6;

/** Return a collective in words: `all-reduce along model, 32 KB per device, 6 times, forward, train.py:9`. */
export function collectiveText(one: ShownCollective): string {
  return [
    `${one.kind} ${one.along.startsWith('devices ') ? 'among' : 'along'} ${one.along}`,
    `${bytesText(one.bytes)} per device`,
    one.times === '?' ? 'an unknown number of times' : timesText(one.times),
    one.direction,
    one.line,
    one.resharding ? 'inserted by the compiler' : '',
  ]
    .filter(Boolean)
    .join(', ');
}

const timesText = (times: string): string => (times === '1' ? 'once' : `${times} times`);

/** Return the chosen collective, `all-reduce along model`, or how many are chosen and of which line. */
export function chosenText({ exchange }: Scene): string {
  const [first, ...more] = exchange?.collectives ?? [];
  if (!first) return '';
  if (!more.length) return `${first.kind} along ${first.along}`;
  return `${countText(more.length + 1, 'collective')} of ${first.line || 'several lines'}`;
}

/** Return the groups in words: `2 groups of 4 devices`; for transfers `1 chain or ring`. */
export function groupsText({ exchange }: Scene): string {
  const groups = exchange?.shares.groups ?? [];
  if (!exchange || !groups.length) return '';
  const sizes = new Set(groups.map(group => group.devices.length));
  const [size = 0] = sizes;
  if (exchange.pairs) return countText(groups.length, 'chain or ring', 'chains or rings');
  const of = sizes.size === 1 ? ` of ${countText(size, 'device')}` : '';
  return `${countText(groups.length, 'group')}${of}`;
}

/** Return the names of devices; of many, the first and how many more. */
export function namesText(scene: Scene, keys: readonly string[]): string {
  const named = keys.slice(0, MOST_NAMED).map(key => shortNameOf(scene, key));
  if (keys.length > MOST_NAMED) named.push(`${keys.length - MOST_NAMED} more`);
  return named.join(', ');
}

/** Return the devices that a device exchanges data with, as rows of a term and names. */
export function partnersRows(scene: Scene, key: string): (readonly [string, string])[] {
  const { exchange } = scene;
  if (!exchange) return [];
  const { to, from } = exchange.partnersOf(key);
  if (!exchange.pairs) {
    return [['exchanges', to.length ? `with ${namesText(scene, to)}` : 'with no other device']];
  }
  return [
    ['sends to', to.length ? namesText(scene, to) : 'no other device'],
    ['receives', from.length ? `from ${namesText(scene, from)}` : 'from no other device'],
  ];
}

/** Return what a card says about a device: its group, or the devices it sends to. */
export function shareText(scene: Scene, key: string): string {
  const { exchange } = scene;
  if (!exchange) return '';
  if (exchange.pairs) {
    const { to } = exchange.partnersOf(key);
    return to.length ? `→ ${namesText(scene, to)}` : 'sends nothing';
  }
  const number = exchange.shares.of.get(key);
  return number === undefined ? '' : `group ${number}`;
}
