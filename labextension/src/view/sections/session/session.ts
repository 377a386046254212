/** The session as a whole: its first line, the notices that a person should read now, and its last line. */

import { bytesText, countText, meshText, processesText, secondsText } from '../../model/format';
import { grouped, largest } from '../../model/lists';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Device, Disagreement, Notice, Snapshot } from '../../model/snapshot';
import {
  changeOf,
  elementsIn,
  Fold,
  KeyedChildren,
  setAttributes,
  setShown,
  setText,
  type Child,
  type Section,
} from '../parts/parts';

const h = elementsIn('session');

/** States that stop the work, or in which there is nothing that could run. */
const TROUBLE: ReadonlySet<Snapshot['state']> = new Set(['stuck', 'out of step', 'refused']);
/** Age in seconds above which data is said to be old. */
const OLD = 5;

/** Return the devices by kind: `8 cpu devices`, `4 TPU v5p devices and 8 cpu devices`. */
function devicesText({ snapshot }: Scene): string {
  const kinds = grouped(snapshot.devices, ({ kind, platform }) => kind || platform);
  return [...kinds].map(([kind, all]) => countText(all.length, `${kind} device`)).join(' and ');
}

/** The first line: state of the session, its size, and how old the newest data is if it is old. */
export class Header implements Section {
  private readonly state = h('b.state');
  private readonly size = h('span');
  private readonly devices = h('span+soft');
  private readonly age = h('span.age', { hidden: true });
  readonly node = h('div.bar+wrap', this.state, this.size, this.devices, this.age);
  private readonly changed = changeOf();
  private recoversIn: number | null = null;

  draw(scene: Scene): void {
    const { state, recovers_at: at, time, processes, devices } = scene.snapshot;
    this.recoversIn = at === null ? null : at - time;
    if (!this.changed(state, at, processes, devices, scene.directory.hosts.length)) return;
    setText(this.state, state);
    const onPaper = isOnPaper(scene.snapshot);
    if (state === 'stopped' || onPaper) setShown(this.age, false);
    setAttributes(this.state, { 'data-trouble': TROUBLE.has(state) });
    const hosts = countText(scene.directory.hosts.length, 'host');
    const size = `${countText(processes.length, 'process', 'processes')} on ${hosts}`;
    setText(this.size, onPaper ? '' : size);
    setShown(this.size, !onPaper);
    setText(this.devices, devicesText(scene));
  }

  /** Write what changes with the age of the newest data from the kernel, in seconds. */
  tick(seconds: number): void {
    if (this.recoversIn !== null) {
      const left = Math.ceil(this.recoversIn - seconds);
      setText(this.state, left > 0 ? `recovering in ${left} s` : 'recovering');
    }
    const old = seconds > OLD;
    setText(this.age, old ? `no news for ${secondsText(seconds)}` : '');
    setShown(this.age, old);
  }
}

/** Return a text whose magics, and parts in backquotes, are shown as code. */
function withCode(text: string): (string | HTMLElement)[] {
  return text.split(/(`[^`]+`|%{1,2}\w+(?: --?[\w-]+)*)/).map((part, i) => {
    return i % 2 ? h('code', part.replaceAll('`', '')) : part;
  });
}

/** Make a notice: a sign in the margin, and words beside it. */
const noticeNode = (level: Notice['level'], sign: string, ...words: Child[]): HTMLElement =>
  h(
    'div.notice',
    { 'data-level': level },
    h('span.notice-sign', { 'aria-hidden': 'true' }, sign),
    h('span.notice-text', words),
  );

function messageNode({ level, title, text, do: step, details }: Notice): HTMLElement {
  const word = h('span+hidden', level === 'bad' ? 'Problem: ' : 'Note: ');
  const lines = [text, step].filter(line => line).flatMap(line => [' ', h('div', withCode(line))]);
  const folded = h('details', h('summary', 'Details'), h('pre', details.join('\n')));
  const more = details.length > 0 ? [folded] : [];
  return noticeNode(level, '!', word, h('b', withCode(title)), ...lines, ...more);
}

function disagreementNode({ about, versions }: Disagreement): HTMLElement {
  const items = versions.map(({ processes, value }) =>
    h('li', h('span+soft', processesText(processes)), ' ', h('code', value)),
  );
  const title = h('b', `Processes disagree on ${about}`);
  return noticeNode('warn', '≠', title, h('ul.versions', items));
}

/** The view's own notice for a session that is out of step, if no other notice says why. */
const OUT_OF_STEP: Notice = {
  level: 'bad',
  title: 'The processes are out of step.',
  text: 'Not all of them have run the same collectives, so the next one may wait for ever.',
  do: '',
  details: [],
  code: 'out of step',
  lost: [],
};

function noticesOf(snapshot: Snapshot): readonly Notice[] {
  const explained = snapshot.notices.some(notice => notice.level === 'bad');
  return snapshot.state === 'out of step' && !explained
    ? [OUT_OF_STEP, ...snapshot.notices]
    : snapshot.notices;
}

type Item = Notice | Disagreement;

/** Make what shows an item. The key is the whole content, so it never changes once made. */
const shownItem = (item: Item) => ({
  node: 'about' in item ? disagreementNode(item) : messageNode(item),
  draw: () => undefined,
});

/** Notices that a person should read now, and what processes disagree on. */
export class Notices implements Section {
  private readonly list = h('section.notices', { 'aria-label': 'Notices' });
  private readonly fold = new Fold('Problem', [this.list]);
  readonly node = this.fold.node;
  private readonly changed = changeOf();
  private readonly items = new KeyedChildren<Item>(this.list, shownItem);

  draw(scene: Scene): void {
    const { notices, disagreements, state } = scene.snapshot;
    if (!this.changed(notices, disagreements, state)) return;
    const items = [...noticesOf(scene.snapshot), ...disagreements];
    this.items.draw(items, item => JSON.stringify(item));
    this.fold.name(
      items.some(item => 'level' in item && item.level === 'bad') ? 'Problem' : 'Notes',
    );
    setShown(this.node, items.length > 0);
  }
}

type Fact = readonly [label: string, value: string, more: string];

/** Return the live bytes, `18.4 MB each`, or their range if devices differ by more than a tenth. */
function liveText(devices: readonly Device[]): string | null {
  const bytes = devices.flatMap(({ live_bytes }) => live_bytes ?? []);
  if (bytes.length === 0) return null;
  const [least, most] = [bytes.reduce((a, b) => Math.min(a, b)), largest(bytes)];
  return most - least <= most / 10
    ? `${bytesText(most)} each`
    : `${bytesText(least)} to ${bytesText(most)}`;
}

/** Return the mesh in context, if all processes that have one agree. */
function contextText(scene: Scene): string | null {
  const ids = new Set(scene.snapshot.processes.map(process => process.context_mesh));
  ids.delete(null);
  const id = [...ids][0];
  const mesh = ids.size === 1 && id ? scene.meshes.get(id) : undefined;
  return mesh ? meshText(mesh) : null;
}

function factsOf(scene: Scene): Fact[] {
  const { arrays, arrays_omitted, devices, state } = scene.snapshot;
  const onPaper = isOnPaper(scene.snapshot);
  const facts: Fact[] = [];
  const context = contextText(scene);
  if (context) facts.push(['mesh in context', context, '']);
  const omitted = arrays_omitted ? `, ${countText(arrays_omitted, 'more', 'more')} not listed` : '';
  const bytes = arrays.reduce((sum, array) => sum + array.nbytes, 0);
  const where = state === 'planned' ? ' planned' : onPaper ? '' : ' in your variables';
  if (arrays.length) {
    facts.push(['', countText(arrays.length, 'array'), `${where}, ${bytesText(bytes)}${omitted}`]);
  }
  const [device] = devices;
  const taken = device?.memory?.bytes_in_use ?? null;
  if (onPaper && taken !== null) facts.push(['Needs', `${bytesText(taken)} per device`, '']);
  const live = liveText(devices);
  if (live) facts.push(['Device memory:', live, ' (includes arrays awaiting garbage collection)']);
  return facts;
}

/** The last line: sums over devices and arrays. */
export class Footer implements Section {
  readonly node = h('div.foot+wrap');
  private readonly changed = changeOf();

  draw(scene: Scene): void {
    const facts = factsOf(scene);
    if (!this.changed(JSON.stringify(facts))) return;
    const items = facts.map(([label, value, more]) => {
      return h('span', label && `${label} `, h('b', value), more);
    });
    this.node.replaceChildren(...items);
    setShown(this.node, items.length > 0);
  }
}
