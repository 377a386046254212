/** The first line: state of the session, its size, and how old the newest data is. */

import { countText, secondsText } from '../../model/format';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Snapshot } from '../../model/snapshot';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

/** States that stop the work, or in which there is nothing that could run. */
const TROUBLE: ReadonlySet<Snapshot['state']> = new Set(['stuck', 'out of step', 'refused']);
/** Age in seconds above which data is said to be old. */
const OLD = 5;

/** Return the devices by kind: `8 cpu devices`, `4 TPU v5p devices and 8 cpu devices`. */
function devicesText(scene: Scene): string {
  const kinds = new Map<string, number>();
  for (const device of scene.snapshot.devices) {
    const kind = device.kind || device.platform;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return [...kinds].map(([kind, count]) => countText(count, `${kind} device`)).join(' and ');
}

export class Header implements Section {
  private readonly state = element('b', 'nbdist-state');
  private readonly size = element('span');
  private readonly devices = element('span', 'nbdist-soft');
  private readonly age = element('span', 'nbdist-age nbdist-soft');
  readonly node = element('div', 'nbdist-bar', {}, this.state, this.size, this.devices, this.age);
  private readonly changed = changeOf();

  draw(scene: Scene): void {
    const { state, processes, devices } = scene.snapshot;
    if (!this.changed(state, processes.length, devices, scene.directory.hosts.length)) return;
    setText(this.state, state);
    const onPaper = isOnPaper(scene.snapshot);
    if (state === 'stopped' || onPaper) setText(this.age, '');
    setAttributes(this.state, { 'data-trouble': TROUBLE.has(state) });
    const hosts = countText(scene.directory.hosts.length, 'host');
    const size = `${countText(processes.length, 'process', 'processes')} on ${hosts}`;
    setText(this.size, onPaper ? '' : size);
    setShown(this.size, !onPaper);
    setText(this.devices, devicesText(scene));
  }

  /** Write the age of the newest data from the kernel, in seconds. */
  tick(seconds: number): void {
    const old = seconds > OLD;
    const text = secondsText(Math.max(0.1, seconds));
    setText(this.age, old ? `no news for ${text}` : `${text} ago`);
    setAttributes(this.age, { 'data-old': old });
  }
}
