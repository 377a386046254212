/** Hosts and processes, with the activity of each; many processes are shown as groups with the same activity. */

import { countText, processesText, rangesText } from '../../model/format';
import { activityParts, metricsText, SIGNS, taskText, TROUBLE } from '../../model/process_text';
import type { Scene } from '../../model/scene';
import type { Process } from '../../model/snapshot';
import { element, KeyedChildren, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

/** Most processes that are shown one by one. */
const MOST_SINGLE = 12;

/** Processes that are shown together as one entry. */
interface Chip {
  readonly key: string;
  readonly processes: readonly Process[];
}

interface HostRow {
  readonly key: string;
  readonly name: string;
  /** Number of the host's edge texture, or null for a group over several hosts. */
  readonly host: number | null;
  readonly chips: readonly Chip[];
}

/** Most different kinds of progress that are shown; the processes with others share one line. */
const MOST_PROGRESS = 6;

/** A line of code at which some processes are, or how far they are. */
interface Line {
  readonly key: string;
  readonly label: string;
  readonly source: string;
  readonly ids: readonly number[];
}

const groupKey = (p: Process): string => [p.state, p.cell, p.line, p.error, p.role].join('|');

function rowsOf(scene: Scene): HostRow[] {
  const { processes } = scene.snapshot;
  if (processes.length > MOST_SINGLE) return [groupRow(scene)];
  return scene.directory.hosts.map((name, host) => ({
    key: name,
    name,
    host,
    chips: processes
      .filter(process => scene.directory.hostOf.get(process.process_id) === host)
      .map(process => ({ key: String(process.process_id), processes: [process] })),
  }));
}

/** Return all processes in groups that do the same, trouble first, then the largest. */
function groupRow(scene: Scene): HostRow {
  const groups = new Map<string, Process[]>();
  for (const process of scene.snapshot.processes) {
    const key = groupKey(process);
    const group = groups.get(key);
    if (group) group.push(process);
    else groups.set(key, [process]);
  }
  const weight = (members: readonly Process[]): number =>
    (members[0] && TROUBLE.has(members[0].state) ? 1e9 : 0) + members.length;
  const chips = [...groups]
    .sort((a, b) => weight(b[1]) - weight(a[1]))
    .map(([key, members]) => ({ key, processes: members }));
  return { key: '', name: '', host: null, chips };
}

/** Return the lines of code at which processes are. */
function linesOf(processes: readonly Process[]): Line[] {
  const lines = new Map<string, { process: Process; ids: number[] }>();
  for (const process of processes) {
    if (process.source === null || process.line === null) continue;
    const key = `${process.cell ?? ''} ${process.line} ${process.source}`;
    const line = lines.get(key);
    if (line) line.ids.push(process.process_id);
    else lines.set(key, { process, ids: [process.process_id] });
  }
  return [...lines].map(([key, { process, ids }]) => ({
    key,
    label: `line ${process.line ?? 0}`,
    source: process.source ?? '',
    ids,
  }));
}

/** Return how far processes are, one line for all that are equally far; kept after the cell has ended. */
function progressOf(processes: readonly Process[]): Line[] {
  const lines = new Map<string, { label: string; source: string; ids: number[] }>();
  for (const { process_id, progress } of processes) {
    if (!progress) continue;
    const source = metricsText(progress);
    const key = `${progress.what} ${source}`;
    const line = lines.get(key);
    if (line) line.ids.push(process_id);
    else lines.set(key, { label: progress.what, source, ids: [process_id] });
  }
  const all = [...lines].map(([key, line]) => ({ key, ...line }));
  const rest = all.slice(MOST_PROGRESS);
  if (rest.length === 0) return all;
  const ids = rest.flatMap(line => line.ids);
  return [...all.slice(0, MOST_PROGRESS), { key: 'rest', label: 'and others', source: '', ids }];
}

/** Return the process of a group that is longest in its line; it stands for the group. */
function slowest(chip: Chip): Process | undefined {
  return [...chip.processes].sort((a, b) => (b.line_seconds ?? 0) - (a.line_seconds ?? 0))[0];
}

const allWait = (chip: Chip): boolean => chip.processes.every(process => process.waiting);

function makeChip(): HTMLElement {
  const parts = ['sign', 'ids', 'task', 'what'].map(name => element('span', `nbdist-${name}`));
  return element('li', 'nbdist-process', {}, ...parts);
}

/** Write parts with a dot between. A line breaks between parts, and inside a part only if it is long. */
function writeParts(node: Element, parts: readonly string[]): void {
  const texts = parts.map((part, i) => (i < parts.length - 1 ? `${part} ·` : part));
  if (node.textContent === texts.join(' ')) return;
  const spans = texts.flatMap((text, i) => {
    const span = element('span', text.length > 24 ? 'nbdist-long-part' : '', {}, text);
    return i ? [' ', span] : [span];
  });
  node.replaceChildren(...spans);
}

function updateChip(node: HTMLElement, chip: Chip): void {
  const process = slowest(chip);
  if (!process) return;
  const [sign, who, called, what] = [...node.children];
  const ids = chip.processes.map(p => p.process_id);
  const hosts = new Set(chip.processes.map(p => p.host)).size;
  if (sign) setText(sign, SIGNS[process.state]);
  if (who) setText(who, rangesText(ids));
  const many = ids.length > 1 ? [countText(hosts, 'host')] : [];
  const parts = [...many, ...activityParts({ ...process, waiting: allWait(chip) })];
  const tasks = [...new Set(chip.processes.map(taskText))];
  const task = tasks.length === 1 ? (tasks[0] ?? '') : process.role;
  if (called) setText(called, task);
  if (called instanceof HTMLElement) setShown(called, task !== '');
  if (what) writeParts(what, parts);
  setAttributes(node, {
    'data-state': process.state,
    'data-trouble': TROUBLE.has(process.state),
    'aria-label': `${[processesText(ids), task, process.state].filter(Boolean).join(', ')}: ${parts.join(', ')}`,
  });
}

/** A host's name with its edge, and its processes. */
class HostNode {
  readonly edge = element('i', 'nbdist-edge', { 'aria-hidden': 'true' });
  readonly name = element('b', 'nbdist-host-name');
  readonly list = element('ul', 'nbdist-processes');
  readonly node = element('div', 'nbdist-host', {}, this.edge, this.name, this.list);
  private readonly chips = new KeyedChildren<Chip>(this.list, makeChip, updateChip);

  draw(row: HostRow): void {
    setText(this.name, row.name);
    setShown(this.name, row.name !== '');
    setShown(this.edge, row.host !== null);
    setAttributes(this.edge, { 'data-host': row.host === null ? null : row.host % 6 });
    setAttributes(this.list, { 'aria-label': row.name ? `processes on ${row.name}` : 'processes' });
    this.chips.draw(row.chips, chip => chip.key);
  }
}

function updateLine(node: HTMLElement, line: Line): void {
  const [label, source, who] = [...node.children];
  if (label) setText(label, line.label);
  if (source) setText(source, line.source);
  if (who) setText(who, processesText(line.ids));
}

const makeLine = (): HTMLElement =>
  element(
    'div',
    'nbdist-line',
    {},
    element('span', 'nbdist-soft'),
    element('code'),
    element('span', 'nbdist-soft'),
  );

export class Processes implements Section {
  private readonly hostArea = element('div', 'nbdist-hosts');
  private readonly lineArea = element('div', 'nbdist-lines');
  private readonly progressArea = element('div', 'nbdist-lines nbdist-progress');
  readonly node = element(
    'section',
    'nbdist-processes-section',
    { 'aria-label': 'Processes' },
    this.hostArea,
    this.lineArea,
    this.progressArea,
  );
  private readonly hostNodes = new Map<HTMLElement, HostNode>();
  private readonly changed = changeOf();
  private readonly hosts = new KeyedChildren<HostRow>(
    this.hostArea,
    () => this.makeHost(),
    (node, row) => this.hostNodes.get(node)?.draw(row),
  );
  private readonly lines = new KeyedChildren<Line>(this.lineArea, makeLine, updateLine);
  private readonly progress = new KeyedChildren<Line>(this.progressArea, makeLine, updateLine);

  draw(scene: Scene): void {
    if (!this.changed(scene.snapshot.processes)) return;
    this.hosts.draw(rowsOf(scene), row => row.key);
    const lines = linesOf(scene.snapshot.processes);
    this.lines.draw(lines, line => line.key);
    setShown(this.lineArea, lines.length > 0);
    const progress = progressOf(scene.snapshot.processes);
    this.progress.draw(progress, line => line.key);
    setShown(this.progressArea, progress.length > 0);
    setShown(this.node, scene.snapshot.processes.length > 0);
  }

  private makeHost(): HTMLElement {
    const host = new HostNode();
    this.hostNodes.set(host.node, host);
    return host.node;
  }
}
