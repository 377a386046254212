/** The devices in words: the one under the pointer or the cursor, and all of them in a table. */

import {
  coordinatesText,
  heldText,
  hostOf,
  idText,
  memoryText,
  nameOf,
  namesText,
  partnersRows,
  processOf,
  shareText,
  unitOf,
} from '../../model/device_text';
import { bytesText, countText } from '../../model/format';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Device } from '../../model/snapshot';
import {
  button,
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  table,
  type Section,
} from '../parts/parts';

const h = elementsIn('device');

type Row = readonly [term: string, value: string];

const HINT = 'Point at a device, or move to it with the arrow keys.';

function memoryRows(scene: Scene, device: Device | undefined): Row[] {
  if (isOnPaper(scene.snapshot)) {
    const text = device ? memoryText(scene, device.key) : '';
    return text ? [['needs', text]] : [];
  }
  const rows: Row[] = [];
  if (device?.live_bytes !== null && device?.live_bytes !== undefined) {
    rows.push(['arrays', `${bytesText(device.live_bytes)} (with those awaiting collection)`]);
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

/** Return the other devices that hold the same shard, and how many values must be added to it. */
function othersRow(scene: Scene, key: string): Row[] {
  const { holding } = scene;
  const piece = holding?.pieces[holding.of.get(key) ?? -1];
  if (!holding || !piece) return [];
  const others = piece.devices.filter(other => other !== key);
  const rows: Row[] = others.length ? [['replicas', `on ${namesText(scene, others)}`]] : [];
  if (piece.addend !== null)
    rows.push(['partial sum', `to be added to ${holding.addends - 1} others`]);
  return rows;
}

function rowsOf(scene: Scene, key: string): Row[] {
  const device = scene.directory.devices.get(key);
  const position = scene.grid.devices.indexOf(key);
  const rows: Row[] = [
    ['host', hostOf(scene, key)],
    ['mesh position', position < 0 ? '' : coordinatesText(scene.grid, position)],
    ['kind', device?.kind ?? ''],
    ['platform', idText(scene, key)],
    ['coordinates', device?.coords ? `(${device.coords.join(', ')})` : ''],
    ['holds', heldText(scene, key)],
  ];
  return [
    ...rows.filter(([, value]) => value),
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

/** Return what each device of a host has, for the first 8 of them. */
const hostRows = (scene: Scene, devices: readonly string[]): Row[] =>
  devices
    .slice(0, 8)
    .map(key => [
      nameOf(scene, key),
      shareText(scene, key) || heldText(scene, key) || `process ${processOf(key)}`,
    ]);

export class DeviceDetail implements Section {
  private readonly hint = h('p+soft', HINT);
  private readonly box = h('section.detail', { 'aria-label': 'Device' });
  readonly node = h('div.place', this.hint, this.box);
  private readonly changed = changeOf();
  /** Whether a cell is a host: then its devices are listed. */
  hosts = false;

  draw(scene: Scene): void {
    const { state, snapshot, holding, exchange, grid } = scene;
    setShown(this.node, grid.devices.length > 0);
    const key = state.hover ?? state.cursor;
    const over = state.hover !== null && state.hover !== state.cursor;
    setAttributes(this.box, { 'data-over': over });
    setShown(this.hint, key === null || over);
    setShown(this.box, key !== null);
    const known = [snapshot.devices, snapshot.processes, holding, exchange, grid];
    if (!this.changed(key, state.pinned, this.hosts, ...(key === null ? [] : known))) return;
    if (key === null) {
      this.box.replaceChildren();
      return;
    }
    const devices = together(scene, key, this.hosts);
    const many = devices.length > 1;
    const title = many
      ? `${unitOf(scene, key)}: ${countText(devices.length, 'device')}`
      : nameOf(scene, key);
    const pinned = state.pinned && state.cursor === key;
    const kept = pinned && [' ', h('span+soft', 'pinned')];
    const rows = many ? hostRows(scene, devices) : rowsOf(scene, key);
    const facts = rows.map(([term, value]) => h('div', h('dt', term), h('dd', value)));
    this.box.replaceChildren(h('p.title', h('b', title), kept), h('dl.facts', facts));
  }
}

/** Number of rows of the table that are made at once; a button makes more. */
const PAGE = 500;

/** The devices as a table, with the same content as the mesh, for reading, copying and screen readers. */
export class DeviceTable implements Section {
  private readonly body = h('tbody');
  private readonly heading = h('caption');
  private readonly more: HTMLElement;
  readonly node: HTMLDetailsElement;
  private readonly changed = changeOf();
  private scene: Scene | null = null;
  private pages = 1;

  constructor() {
    const headings = ['device', 'host', 'mesh position', 'holds', 'memory', 'platform'];
    const devices = table(headings, this.body, this.heading);
    this.more = button('', () => {
      this.pages += 1;
      this.redraw();
    });
    const scroller = h('div+scroll', devices, this.more);
    this.node = h('details.table+opened', h('summary', 'Devices as a table'), scroller);
    this.node.addEventListener('toggle', () => {
      this.redraw();
    });
  }

  private redraw(): void {
    if (this.scene) this.draw(this.scene);
  }

  draw(scene: Scene): void {
    this.scene = scene;
    setShown(this.node, scene.grid.devices.length > 0);
    // A closed table costs nothing: its rows are made when it is opened.
    if (!this.node.open) return;
    const { grid, holding, snapshot, array } = scene;
    const inputs = [grid, holding, array, snapshot.devices, snapshot.processes, this.pages];
    if (!this.changed(...inputs)) return;
    const shown = grid.devices.slice(0, this.pages * PAGE);
    this.heading.textContent = array ? `holding shards of ${array.path}` : grid.label;
    this.body.replaceChildren(...shown.map((key, position) => rowOf(scene, key, position)));
    setShown(this.more, shown.length < grid.devices.length);
    this.more.textContent = `Show more of ${countText(grid.devices.length, 'device')}`;
  }
}

const rowOf = (scene: Scene, key: string, position: number): HTMLElement =>
  h(
    'tr',
    { 'data-device': key },
    h('th', { scope: 'row' }, nameOf(scene, key)),
    h('td', hostOf(scene, key)),
    h('td', coordinatesText(scene.grid, position)),
    h('td+code', heldText(scene, key)),
    h('td', memoryText(scene, key)),
    h('td', idText(scene, key)),
  );
