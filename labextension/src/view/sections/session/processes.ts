/** Hosts and processes, with the activity of each; many processes are shown as groups with the same activity. */

import { goTo, type CodePlace } from '../../model/code_place';
import { SILENT_SECONDS } from '../../model/contract';
import { countText, metricText, processesText, rangesText, secondsText } from '../../model/format';
import { grouped } from '../../model/lists';
import type { Scene } from '../../model/scene';
import type { Process, Progress } from '../../model/snapshot';
import {
  changeOf,
  elementsIn,
  KeyedChildren,
  setAttributes,
  setShown,
  setText,
  type Section,
} from '../parts/parts';

const h = elementsIn('session');

/** A sign for each state, so that states are told apart without colour. */
const SIGNS: Readonly<Record<Process['state'], string>> = {
  starting: '◌',
  idle: '○',
  running: '▶',
  compiling: '◐',
  failed: '✕',
  stuck: '■',
  lost: '∅',
};

const TROUBLE: ReadonlySet<Process['state']> = new Set(['failed', 'stuck', 'lost']);

/** Return whether a process in this state needs attention. */
export const isTrouble = (state: Process['state']): boolean => TROUBLE.has(state);

/** Return `line 4`; `cell 12` if the line is not known. */
function place({ cell, line }: Process): string[] {
  if (line !== null) return [`line ${line}`];
  return cell === null ? [] : [`cell ${cell}`];
}

/** Return since when: `waiting 3.0 s` in its line, or `cell running 9.0 s`. */
function since(process: Process): string[] {
  const { waiting, state, line_seconds, cell_seconds } = process;
  const inLine = waiting || state === 'stuck' ? line_seconds : null;
  if (inLine !== null) return [`${waiting ? 'waiting ' : ''}${secondsText(inLine)}`];
  if (cell_seconds === null) return waiting ? ['waiting'] : [];
  return [...(waiting ? ['waiting'] : []), `cell running ${secondsText(cell_seconds)}`];
}

function activity(process: Process): string[] {
  const { state, error } = process;
  switch (state) {
    case 'running':
      return [...place(process), ...since(process)];
    case 'compiling':
    case 'stuck':
      return [state, ...place(process), ...since(process)];
    case 'failed':
      return [error ?? 'failed', ...place(process)];
    case 'lost':
      return error ? ['lost', error] : ['lost'];
    case 'starting':
    case 'idle':
      return [state];
  }
}

/**
 * Return the activity of a process in parts: `line 4`, `cell running 3.2 s`;
 * `ValueError: empty batch`, `line 2`; `lost`, `last report 6.0 s ago`.
 */
export function activityParts(process: Process): readonly string[] {
  const silentSeconds = process.silent_seconds;
  const silent =
    silentSeconds !== null && (silentSeconds > SILENT_SECONDS || process.state === 'lost');
  const age = silent ? [`last report ${secondsText(silentSeconds)} ago`] : [];
  return [...activity(process), ...age];
}

/** Return the framework's name for the process, else its role if that is not the usual one, `worker`. */
export const taskText = (process: Process): string =>
  process.task ?? (process.role === 'worker' ? '' : process.role);

/** Return metrics as text: `loss 0.312  accuracy 0.911`. */
export const metricsText = ({ metrics }: Progress): string =>
  metrics.map(({ name, value }) => `${name} ${metricText(value)}`).join('  ');

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
function groupRow({ snapshot }: Scene): HostRow {
  const weight = ({ processes }: Chip): number =>
    (processes[0] && isTrouble(processes[0].state) ? 1e9 : 0) + processes.length;
  const chips = [...grouped(snapshot.processes, groupKey)]
    .map(([key, processes]) => ({ key, processes }))
    .sort((a, b) => weight(b) - weight(a));
  return { key: '', name: '', host: null, chips };
}

const idsOf = (processes: readonly Process[]): number[] => processes.map(one => one.process_id);

/** Return the lines of code at which processes are. */
function linesOf(processes: readonly Process[]): Line[] {
  const known = processes.filter(({ source, line }) => source !== null && line !== null);
  const lines = grouped(known, p => `${p.cell ?? ''} ${p.line ?? 0} ${p.source ?? ''}`);
  return [...lines].map(([key, there]) => {
    const { line, source } = there[0] ?? {};
    return { key, label: `line ${line ?? 0}`, source: source ?? '', ids: idsOf(there) };
  });
}

/** Return how far processes are, one line for all that are equally far; kept after the cell has ended. */
function progressOf(processes: readonly Process[]): Line[] {
  const lines = grouped(processes, ({ progress }) =>
    progress ? `${progress.what} ${metricsText(progress)}` : '',
  );
  lines.delete('');
  const all = [...lines].map(([key, there]) => {
    const progress = there[0]?.progress;
    const source = progress ? metricsText(progress) : '';
    return { key, label: progress?.what ?? '', source, ids: idsOf(there) };
  });
  const ids = all.slice(MOST_PROGRESS).flatMap(line => line.ids);
  if (ids.length === 0) return all;
  return [...all.slice(0, MOST_PROGRESS), { key: 'rest', label: 'and others', source: '', ids }];
}

/** Return the process of a group that is longest in its line; it stands for the group. */
function slowest(chip: Chip): Process | undefined {
  return [...chip.processes].sort((a, b) => (b.line_seconds ?? 0) - (a.line_seconds ?? 0))[0];
}

/** One process, or a group of those that do the same: a sign, who, the name of the task, and the activity. */
class ChipNode {
  private readonly sign = h('span.sign', { 'aria-hidden': 'true' });
  private readonly ids = h('span.ids');
  private readonly task = h('span.task');
  private readonly what = h('span.what');
  private readonly go = h(
    'button.process',
    { type: 'button' },
    ...[this.sign, h('span+hidden', 'process'), this.ids, this.task, this.what],
  );
  readonly node = h('li', this.go);
  private place: CodePlace | null = null;

  constructor() {
    this.go.addEventListener('click', () => {
      if (this.place) goTo(this.node, this.place);
    });
  }

  draw(chip: Chip): void {
    const process = slowest(chip);
    if (!process) return;
    const ids = idsOf(chip.processes);
    const hosts = new Set(chip.processes.map(p => p.host)).size;
    const many = ids.length > 1 ? [countText(hosts, 'host')] : [];
    const waiting = chip.processes.every(one => one.waiting);
    const parts = [...many, ...activityParts({ ...process, waiting })];
    const tasks = new Set(chip.processes.map(taskText));
    const task = tasks.size === 1 ? taskText(process) : process.role;
    setText(this.sign, SIGNS[process.state]);
    setText(this.ids, rangesText(ids));
    setText(this.task, task);
    setShown(this.task, task !== '');
    this.write(parts);
    const who = [processesText(ids), task, process.state].filter(Boolean).join(', ');
    const { cell, line } = process;
    this.place = cell === null ? null : { cell, line };
    this.go.disabled = cell === null;
    setAttributes(this.node, { 'aria-label': `${who}: ${parts.join(', ')}` });
    setAttributes(this.go, {
      'data-state': process.state,
      'data-trouble': isTrouble(process.state),
      title: cell === null ? null : `Go to cell ${cell}${line === null ? '' : `, line ${line}`}`,
    });
  }

  /** Write parts with a dot between. A line breaks between parts, and inside a part only if it is long. */
  private write(parts: readonly string[]): void {
    const texts = parts.map((part, i) => (i < parts.length - 1 ? `${part} ·` : part));
    if (this.what.textContent === texts.join(' ')) return;
    const spans = texts.flatMap((text, i) => {
      const span = h(text.length > 24 ? 'span.long-part' : 'span', text);
      return i ? [' ', span] : [span];
    });
    this.what.replaceChildren(...spans);
  }
}

/** A host's name with its edge, and its processes. */
class HostNode {
  private readonly edge = h('i+edge', { 'aria-hidden': 'true' });
  private readonly name = h('b.host-name');
  private readonly list = h('ul.processes+wrap');
  readonly node = h('div.host+wrap', this.edge, this.name, this.list);
  private readonly chips = new KeyedChildren<Chip>(this.list, () => new ChipNode());

  draw(row: HostRow): void {
    setText(this.name, row.name);
    setShown(this.name, row.name !== '');
    setShown(this.edge, row.host !== null);
    setAttributes(this.edge, { 'data-host': row.host === null ? null : row.host % 6 });
    setAttributes(this.list, { 'aria-label': row.name ? `processes on ${row.name}` : 'processes' });
    this.chips.draw(row.chips, chip => chip.key);
  }
}

/** What stands on a line, and who is there. */
class LineNode {
  private readonly label = h('span+soft');
  private readonly source = h('code');
  private readonly who = h('span+soft');
  readonly node = h('div.line+wrap', this.label, this.source, this.who);

  draw({ label, source, ids }: Line): void {
    setText(this.label, label);
    setText(this.source, source);
    setText(this.who, processesText(ids));
  }
}

export class Processes implements Section {
  private readonly hostArea = h('div.hosts+wrap');
  private readonly lineArea = h('div.lines');
  private readonly progressArea = h('div.lines.progress');
  readonly node = h(
    'section.section',
    { 'aria-label': 'Processes' },
    ...[this.hostArea, this.lineArea, this.progressArea],
  );
  private readonly changed = changeOf();
  private readonly hosts = new KeyedChildren<HostRow>(this.hostArea, () => new HostNode());
  private readonly lines = new KeyedChildren<Line>(this.lineArea, () => new LineNode());
  private readonly progress = new KeyedChildren<Line>(this.progressArea, () => new LineNode());

  draw(scene: Scene): void {
    const { processes } = scene.snapshot;
    if (!this.changed(processes)) return;
    this.hosts.draw(rowsOf(scene), row => row.key);
    this.lines.draw(linesOf(processes), line => line.key);
    this.progress.draw(progressOf(processes), line => line.key);
    for (const area of [this.lineArea, this.progressArea]) {
      setShown(area, area.childElementCount > 0);
    }
    setShown(this.node, processes.length > 0);
  }
}
