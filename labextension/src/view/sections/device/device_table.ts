/** The devices as a table, with the same content as the mesh, for reading, copying and screen readers. */

import {
  coordinatesText,
  heldText,
  hostOf,
  memoryText,
  nameOf,
  processOf,
} from '../../model/device_text';
import { countText } from '../../model/format';
import type { Scene } from '../../model/scene';
import { element, setShown } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

/** Number of rows that are made at once; a button makes more. */
const PAGE = 500;
const HEADINGS = ['device', 'process', 'place', 'holds', 'memory'];

export class DeviceTable implements Section {
  private readonly body = element('tbody');
  private readonly heading = element('caption');
  private readonly more = element('button', 'nbdist-button', { type: 'button' });
  private readonly details = element('details', 'nbdist-table');
  readonly node: HTMLElement = this.details;
  private readonly changed = changeOf();
  private scene: Scene | null = null;
  private pages = 1;

  constructor() {
    const head = HEADINGS.map(text => element('th', '', { scope: 'col' }, text));
    const table = element('table', '', {}, this.heading);
    table.append(element('thead', '', {}, element('tr', '', {}, ...head)), this.body);
    const scroller = element('div', 'nbdist-table-scroll', {}, table, this.more);
    this.details.append(element('summary', '', {}, 'Devices as a table'), scroller);
    this.details.addEventListener('toggle', () => {
      if (this.scene) this.draw(this.scene);
    });
    this.more.addEventListener('click', () => {
      this.pages += 1;
      if (this.scene) this.draw(this.scene);
    });
  }

  draw(scene: Scene): void {
    this.scene = scene;
    setShown(this.node, scene.grid.devices.length > 0);
    // A closed table costs nothing: its rows are made when it is opened.
    if (!this.details.open) return;
    const { grid, holding, snapshot, array } = scene;
    const inputs = [grid, holding, array, snapshot.devices, snapshot.processes, this.pages];
    if (!this.changed(...inputs)) return;
    const shown = grid.devices.slice(0, this.pages * PAGE);
    this.heading.textContent = array ? `holding pieces of ${array.path}` : grid.label;
    this.body.replaceChildren(...shown.map((key, position) => this.row(scene, key, position)));
    setShown(this.more, shown.length < grid.devices.length);
    this.more.textContent = `Show more of ${countText(grid.devices.length, 'device')}`;
  }

  private row(scene: Scene, key: string, position: number): HTMLElement {
    const host = hostOf(scene, key);
    const texts = [
      `${processOf(key)}${host ? ` on ${host}` : ''}`,
      coordinatesText(scene.grid, position),
      heldText(scene, key),
      memoryText(scene, key),
    ];
    const name = element('th', '', { scope: 'row' }, nameOf(scene, key));
    const cells = texts.map((text, i) => element('td', i === 2 ? 'nbdist-code' : '', {}, text));
    return element('tr', '', { 'data-device': key }, name, ...cells);
  }
}
