/** Everything that is known about the device under the pointer or the cursor. */

import {
  coordinatesText,
  heldText,
  hostOf,
  memoryText,
  nameOf,
  processOf,
  unitOf,
} from '../../model/device_text';
import { partnersRows, shareText } from '../../model/exchange_text';
import { bytesText, countText } from '../../model/format';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Device } from '../../model/snapshot';
import { element, setShown } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

type Row = readonly [term: string, value: string];

const HINT = 'Point at a device, or move to it with the arrow keys.';
/** Most copies that are listed by name; the rest are counted. */
const MOST_NAMED = 6;

function memoryRows(scene: Scene, device: Device | undefined): Row[] {
  if (isOnPaper(scene.snapshot)) {
    const text = device ? memoryText(scene, device.key) : '';
    return text ? [['would take', text]] : [];
  }
  const rows: Row[] = [];
  if (device?.live_bytes !== null && device?.live_bytes !== undefined) {
    rows.push(['live arrays', bytesText(device.live_bytes)]);
  }
  const memory = device?.memory;
  if (!memory) return rows;
  const parts = [
    memory.bytes_in_use === null ? '' : `${bytesText(memory.bytes_in_use)} in use`,
    memory.peak_bytes_in_use === null ? '' : `peak ${bytesText(memory.peak_bytes_in_use)}`,
    memory.bytes_limit === null ? '' : `limit ${bytesText(memory.bytes_limit)}`,
  ].filter(Boolean);
  return parts.length ? [...rows, ['memory', parts.join(', ')]] : rows;
}

/** Return the other devices that hold the same piece, and how many values must be added to it. */
function othersRow(scene: Scene, key: string): Row[] {
  const { holding } = scene;
  const piece = holding?.pieces[holding.of.get(key) ?? -1];
  if (!holding || !piece) return [];
  const others = piece.devices.filter(other => other !== key);
  const named = others.slice(0, MOST_NAMED).map(other => nameOf(scene, other));
  if (others.length > MOST_NAMED) named.push(`${others.length - MOST_NAMED} more`);
  const rows: Row[] = others.length ? [['copies on', named.join(', ')]] : [];
  if (piece.addend !== null)
    rows.push(['partial sum', `to be added to ${holding.addends - 1} others`]);
  return rows;
}

function rowsOf(scene: Scene, key: string): Row[] {
  const device = scene.directory.devices.get(key);
  const position = scene.grid.devices.indexOf(key);
  const host = hostOf(scene, key);
  const held = heldText(scene, key);
  return [
    ['process', `${processOf(key)}${host ? ` on ${host}` : ''}`],
    ...(position < 0 ? [] : [['place', coordinatesText(scene.grid, position)] as const]),
    ...(device ? [['kind', device.kind] as const] : []),
    ...(device?.coords ? [['coordinates', `(${device.coords.join(', ')})`] as const] : []),
    ...(held ? [['holds', held] as const] : []),
    ...othersRow(scene, key),
    ...partnersRows(scene, key),
    ...memoryRows(scene, device),
  ];
}

/** Return the devices in the cell of `key`: all devices of its host if cells are hosts, else `key` alone. */
function together(scene: Scene, key: string, hosts: boolean): readonly string[] {
  if (!hosts) return [key];
  const host = unitOf(scene, key);
  return scene.grid.devices.filter(other => unitOf(scene, other) === host);
}

export class DeviceDetail implements Section {
  readonly node = element('section', 'nbdist-detail', { 'aria-label': 'Device' });
  private readonly changed = changeOf();
  /** Whether a cell is a host: then its devices are listed, the first 8 of them. */
  hosts = false;

  draw(scene: Scene): void {
    const { state, snapshot, holding, exchange, grid } = scene;
    setShown(this.node, grid.devices.length > 0);
    const key = state.hover ?? state.cursor;
    const known = [snapshot.devices, snapshot.processes, holding, exchange, grid];
    if (!this.changed(key, state.pinned, this.hosts, ...(key === null ? [] : known))) return;
    if (key === null) {
      this.node.replaceChildren(element('p', 'nbdist-soft', {}, HINT));
      return;
    }
    const devices = together(scene, key, this.hosts);
    const pinned = state.pinned && state.cursor === key;
    const name = devices.length > 1 ? this.hostTitle(scene, key, devices) : nameOf(scene, key);
    const title = element('b', '', {}, name);
    const kept = pinned ? [' ', element('span', 'nbdist-soft', {}, 'kept')] : [];
    const heading = element('p', 'nbdist-detail-title', {}, title, ...kept);
    const body = devices.length > 1 ? this.hostList(scene, devices) : this.list(rowsOf(scene, key));
    this.node.replaceChildren(heading, body);
  }

  private hostTitle(scene: Scene, key: string, devices: readonly string[]): string {
    return `${unitOf(scene, key)}: ${countText(devices.length, 'device')}`;
  }

  private hostList(scene: Scene, devices: readonly string[]): HTMLElement {
    return this.list(
      devices
        .slice(0, 8)
        .map(key => [
          nameOf(scene, key),
          shareText(scene, key) || heldText(scene, key) || processText(key),
        ]),
    );
  }

  private list(rows: readonly Row[]): HTMLElement {
    const entries = rows.map(([term, value]) =>
      element('div', '', {}, element('dt', '', {}, term), element('dd', '', {}, value)),
    );
    return element('dl', 'nbdist-facts', {}, ...entries);
  }
}

const processText = (key: string): string => `process ${processOf(key)}`;
