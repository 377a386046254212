/** A session in one line: hosts, their processes as chips, devices as squares; the answer to a start. */

import { countText, deviceText } from '../../model/format';
import { grouped } from '../../model/lists';
import type { Scene } from '../../model/scene';
import type { Device, Process } from '../../model/snapshot';
import {
  button,
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  setText,
  type Dispatch,
  type Section,
} from '../parts/parts';
import { isTrouble } from './processes';

const h = elementsIn('session');

/** Most hosts, processes and devices that are drawn one by one; more are counted. */
const MOST = { hosts: 8, processes: 16, devices: 64 } as const;

const NEXT = ['Next: start a ', '%%dist', ' cell'] as const;

const square = (device: Device, scene: Scene): HTMLElement =>
  h('i.square', {
    title: `${deviceText(device.key, scene.directory.numbers)} (JAX id ${device.id})`,
  });

/** Make the chip of a process: its number, and a square for each of its devices. */
function chip(process: Process, devices: readonly Device[], scene: Scene): HTMLElement {
  const { process_id: id, state } = process;
  const squares = devices.map(device => square(device, scene));
  const label = `process ${id}, ${state}, ${countText(devices.length, 'device')}`;
  return h(
    'li.strip-chip',
    { 'aria-label': label, 'data-trouble': isTrouble(state), title: `process ${id}, ${state}` },
    h('span', String(id)),
    h('span.squares', { 'aria-hidden': 'true' }, squares),
  );
}

const counted = (processes: number, devices: number): string =>
  `${countText(processes, 'process', 'processes')}, ${countText(devices, 'device')}`;

/** Make the parts of the strip: hosts with chips if they are few, else counts. */
function partsOf(scene: Scene): HTMLElement[] {
  const { processes, devices } = scene.snapshot;
  const { hosts } = scene.directory;
  if (hosts.length > MOST.hosts) {
    return [h('span', `${hosts.length} hosts, ${counted(processes.length, devices.length)}`)];
  }
  const of = grouped(devices, device => device.process_id);
  const few = processes.length <= MOST.processes && devices.length <= MOST.devices;
  return [...grouped(processes, process => process.host)].map(([host, theirs]) => {
    const count = theirs.reduce((sum, { process_id: id }) => sum + (of.get(id)?.length ?? 0), 0);
    const chips = theirs.map(one => chip(one, of.get(one.process_id) ?? [], scene));
    const shown = few
      ? h('ul.strip-chips+wrap', { 'aria-label': `processes on ${host}` }, chips)
      : h('span+soft', counted(theirs.length, count));
    return h('div.strip-host+wrap', h('b', host), shown);
  });
}

/** The strip, with the button that opens the whole view in its place and closes it again. */
export class Strip implements Section {
  private readonly parts = h('div.strip-parts+wrap');
  private readonly said = h('b.strip-said');
  private readonly next = h('span+soft', NEXT[0], h('code', NEXT[1]), NEXT[2]);
  private readonly toggle: HTMLButtonElement;
  readonly node: HTMLElement;
  private readonly changed = changeOf();
  private open = false;

  constructor(dispatch: Dispatch) {
    this.toggle = button('', () => {
      dispatch({ type: 'open', open: !this.open });
    });
    const parts = [this.said, this.parts, this.next, this.toggle];
    this.node = h('section.strip+wrap', { 'aria-label': 'Session in brief' }, parts);
    // All of it opens the view for the pointer; the button is what the keyboard and screen readers use.
    this.parts.addEventListener('click', () => {
      dispatch({ type: 'open', open: true });
    });
  }

  draw(scene: Scene): void {
    const { snapshot, state } = scene;
    const { processes, devices, notices } = snapshot;
    this.open = state.open;
    setShown(this.node, state.brief);
    if (!this.changed(processes, devices.length, notices, snapshot.state, state.open)) return;
    const problem = notices.find(({ level }) => level === 'bad');
    const quiet = snapshot.state === 'idle' || snapshot.state === 'running';
    const said = problem?.title ?? (quiet ? '' : snapshot.state);
    setText(this.said, said);
    setShown(this.said, said !== '' && !state.open);
    setAttributes(this.said, { 'data-trouble': problem !== undefined });
    this.parts.replaceChildren(...partsOf(scene));
    setShown(this.parts, !state.open);
    setShown(this.next, !state.open && quiet && problem === undefined);
    setText(this.toggle, state.open ? '▴ Show less' : '▾ Show devices and arrays');
    setAttributes(this.toggle, { 'aria-expanded': String(state.open) });
  }
}
