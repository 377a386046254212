/** A compiled program: whether it fits, its memory, and the data that its devices exchange. */

import { collectiveText, groupsText } from '../../model/device_text';
import { collectivesOf } from '../../model/exchange';
import { bytesText, countText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { ShownCollective, ShownProgram } from '../../model/snapshot';
import {
  button,
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  setText,
  type Announce,
  type Dispatch,
  type Section,
} from '../parts/parts';

const h = elementsIn('program');

/** A part of the memory that a program needs on each device. */
export interface MemoryPart {
  readonly name: 'arguments' | 'outputs' | 'temporaries' | 'code';
  /** Bytes that the part takes in the bar. */
  readonly bytes: number;
  /** The size of the part, and how much of it is counted in another part. */
  readonly text: string;
}

/** Return the parts of the memory that a program needs; their sum is `needed`. None if the memory is not known. */
export function memoryParts({ memory }: ShownProgram): readonly MemoryPart[] {
  if (!memory) return [];
  const { outputs, aliased } = memory;
  const shared = aliased ? `, of which ${bytesText(aliased)} reuse argument buffers (donated)` : '';
  const part = (name: 'arguments' | 'temporaries' | 'code'): MemoryPart => {
    return { name, bytes: memory[name], text: bytesText(memory[name]) };
  };
  const text = `${bytesText(outputs)}${shared}`;
  const made: MemoryPart = { name: 'outputs', bytes: outputs - aliased, text };
  return [part('arguments'), made, part('temporaries'), part('code')];
}

/** Return the memory left or missing: `12 GB are left`, `49 GB too much`; empty if either number is not known. */
export function marginText({ needed, limit, fits }: ShownProgram): string {
  if (needed === null || limit === null) return '';
  return fits
    ? `${bytesText(limit - needed)} are left`
    : `${bytesText(Math.max(0, needed - limit))} too much`;
}

/**
 * Return the bytes that a whole bar stands for: the limit, or what is needed if that is more; 0 if
 * neither is known.
 */
export const wholeOf = ({ needed, limit }: ShownProgram): number =>
  Math.max(needed ?? 0, limit ?? 0);

const percent = (bytes: number, whole: number): string => `${((100 * bytes) / whole).toFixed(2)}%`;

/** Make a part of the bar of this width. */
function segment(name: string, width: string): HTMLElement {
  const node = h('i', { 'data-part': name });
  node.style.width = width;
  return node;
}

function legendEntry({ name, text }: MemoryPart): HTMLElement {
  const sign = h('i', { 'data-part': name, 'aria-hidden': 'true' });
  return h('li', sign, `${name} `, h('b', text));
}

/** Return one bar that shows the limit too, and a legend of its parts if they are known; nothing if the memory is not known. */
function memoryBar(program: ShownProgram): readonly HTMLElement[] {
  const { needed, limit } = program;
  const whole = wholeOf(program);
  if (needed === null || whole === 0) return [];
  const parts = memoryParts(program);
  const of = limit === null ? '' : ` of ${bytesText(limit)}`;
  const label = `${bytesText(needed)}${of} on each device`;
  const shown = parts.length
    ? parts.filter(part => part.bytes > 0).map(one => segment(one.name, percent(one.bytes, whole)))
    : segment('unknown', percent(needed, whole));
  const box = h('div.memory', h('div.bar', { role: 'img', 'aria-label': label }, shown));
  if (limit !== null) {
    const mark = h(
      'span.limit',
      { 'data-over': needed > limit, 'data-left': limit < whole / 2 },
      h('span', `limit ${bytesText(limit)}`),
    );
    mark.style.left = percent(limit, whole);
    box.append(mark);
  }
  return parts.length ? [box, h('ul.parts+wrap', parts.map(legendEntry))] : [box];
}

/** Number of rows that are made at once; a button makes more. */
const PAGE = 300;
const HEADINGS = ['collective', 'along', 'per device', 'times', 'pass', 'line'];
const MARK = '* inserted by the compiler: a value is not laid out as its user needs it';
const HINT =
  'Select a collective to see which devices exchange data, or click a source line to select all its collectives.';

/** The collectives as a table; a person can choose one, or all of a line of code. */
class CollectiveTable {
  private readonly body = h('tbody', { role: 'rowgroup' });
  private readonly grid: HTMLElement;
  private readonly more: HTMLElement;
  private readonly mark = h('p+note', MARK);
  private readonly hint = h('p+note', HINT);
  readonly node: HTMLElement;
  private readonly programChanged = changeOf();
  private readonly chosenChanged = changeOf();
  private rows: readonly HTMLElement[] = [];
  private program: ShownProgram | null = null;
  private pages = 1;
  /** The row the keyboard is at; -1 if it is at none yet. */
  private at = -1;
  /** True until a choice made here has been announced. */
  private unsaid = false;

  constructor(
    private readonly dispatch: Dispatch,
    private readonly prefix: string,
    private readonly announce: Announce,
  ) {
    const cells = HEADINGS.map(text => h('th', { role: 'columnheader' }, text));
    const head = h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, cells));
    const attributes = { role: 'grid', tabindex: 0, 'aria-multiselectable': 'true' };
    this.grid = h('table', { ...attributes, 'aria-label': 'Collectives' }, head, this.body);
    this.grid.addEventListener('keydown', event => {
      this.press(event);
    });
    this.more = button('', () => {
      this.pages += 1;
      this.build();
    });
    this.node = h('div', this.hint, h('div.collectives', this.grid, this.more), this.mark);
  }

  draw(scene: Scene): void {
    const { program } = scene.snapshot;
    if (this.programChanged(program)) {
      [this.program, this.pages, this.at] = [program, 1, -1];
      this.build();
    }
    if (!this.chosenChanged(scene.state.chosen, this.rows)) return;
    const chosen = new Set(scene.state.chosen);
    this.rows.forEach((row, i) => {
      setAttributes(row, { 'aria-selected': chosen.has(i) ? 'true' : 'false' });
    });
    if (this.unsaid) this.say(scene);
  }

  private say(scene: Scene): void {
    this.unsaid = false;
    const { chosen } = scene.state;
    const [only] = scene.exchange?.collectives ?? [];
    if (!chosen.length) this.announce('No collective is chosen');
    else if (chosen.length > 1) this.announce(`${countText(chosen.length, 'collective')} chosen`);
    else if (only)
      this.announce([collectiveText(only), groupsText(scene)].filter(Boolean).join('; '));
    else this.announce('Which devices take part is not known');
  }

  private build(): void {
    const collectives = this.program?.collectives ?? [];
    const shown = collectives.slice(0, this.pages * PAGE);
    this.rows = shown.map((one, i) => this.row(one, i));
    this.body.replaceChildren(...this.rows);
    for (const part of [this.grid, this.hint]) setShown(part, shown.length > 0);
    setShown(this.more, shown.length < collectives.length);
    setText(this.more, `Show more of ${countText(collectives.length, 'collective')}`);
    const resharding = collectives.some(one => one.resharding);
    setShown(this.mark, resharding);
    this.moveTo(Math.min(this.at, shown.length - 1));
  }

  private row(one: ShownCollective, number: number): HTMLElement {
    const kind = `${one.kind}${one.resharding ? ' *' : ''}`;
    const texts = [kind, one.along, bytesText(one.bytes), one.times, one.direction];
    const line = one.line && this.lineButton(one.line, number);
    const cells = [...texts, line].map(content => h('td', { role: 'gridcell' }, content));
    const row = h('tr', { role: 'row', id: `${this.prefix}-collective-${number}` }, cells);
    setAttributes(row, { 'data-resharding': one.resharding, title: one.arrays });
    row.addEventListener('click', () => {
      this.moveTo(number);
      this.choose(row.getAttribute('aria-selected') === 'true' ? [] : [number]);
    });
    return row;
  }

  /** Make the button of a line. In a row it is no tab stop: Enter on the row does the same. */
  lineButton(line: string, number: number | null = null): HTMLElement {
    const title = `Select all collectives of ${line}`;
    const tabindex = number === null ? null : -1;
    const node = h('button.line', { type: 'button', tabindex, title }, line);
    node.addEventListener('click', event => {
      event.stopPropagation();
      if (number !== null) this.moveTo(number);
      this.chooseLine(line);
    });
    return node;
  }

  /** Choose all collectives of a line of code. */
  private chooseLine(line: string): void {
    if (this.program) this.choose(collectivesOf(this.program, line));
  }

  private choose(collectives: readonly number[]): void {
    this.unsaid = true;
    this.dispatch({ type: 'choose', collectives });
  }

  private press(event: KeyboardEvent): void {
    if (event.altKey || event.metaKey || event.ctrlKey) return;
    const last = this.rows.length - 1;
    const targets: Readonly<Record<string, number>> = {
      ArrowDown: Math.min(last, this.at + 1),
      ArrowUp: Math.max(0, this.at - 1),
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    const line = this.program?.collectives[this.at]?.line;
    if (target !== undefined && last >= 0) {
      this.moveTo(target);
      this.choose([target]);
    } else if (event.key === 'Enter' && line) this.chooseLine(line);
    else if (event.key === ' ' && this.at >= 0) this.choose([this.at]);
    else return;
    event.preventDefault();
  }

  private moveTo(at: number): void {
    this.at = at;
    this.rows.forEach((row, i) => {
      setAttributes(row, { 'data-active': i === at });
    });
    setAttributes(this.grid, { 'aria-activedescendant': this.rows[at]?.id ?? null });
    this.rows[at]?.scrollIntoView({ block: 'nearest' });
  }
}

function heading(program: ShownProgram): HTMLElement {
  const margin = marginText(program);
  const shown = margin && [' ', h('span.margin', margin)];
  return h('p', { 'data-trouble': !program.fits }, h('b.title', program.title), shown);
}

/** Make the element with the compiler's message about a program that it refused. */
const refusalNode = (text: string): HTMLElement =>
  h('details', { open: true }, h('summary', 'What the compiler says'), h('pre.said', text));

/** Make the lines below the collectives: sums, and what is not counted. */
function below({ totals, unread, collectives, refusal }: ShownProgram): readonly HTMLElement[] {
  const none = !collectives.length && refusal === null ? ['Its devices exchange nothing.'] : [];
  const left = unread.length ? [`Not counted: ${unread.join('; ')}.`] : [];
  return [...none, ...totals, ...left].map(text => h('p', text));
}

export class ProgramSection implements Section {
  private readonly top = h('div.top');
  private readonly largest = h('div.largest');
  private readonly bottom = h('div');
  private readonly collectives: CollectiveTable;
  readonly node: HTMLElement;
  private readonly changed = changeOf();

  constructor(dispatch: Dispatch, prefix: string, announce: Announce) {
    this.collectives = new CollectiveTable(dispatch, prefix, announce);
    const parts = [this.top, this.collectives.node, this.bottom, this.largest];
    this.node = h('section.program', { 'aria-label': 'Program' }, parts);
  }

  draw(scene: Scene): void {
    const { program } = scene.snapshot;
    this.collectives.draw(scene);
    if (!this.changed(program) || !program) return;
    const said = program.refusal === null ? [] : [refusalNode(program.refusal)];
    this.top.replaceChildren(heading(program), ...memoryBar(program), ...said);
    this.bottom.replaceChildren(...below(program));
    this.drawLargest(program);
  }

  private drawLargest({ largest, collectives }: ShownProgram): void {
    setShown(this.largest, largest.length > 0);
    const lines = new Set(collectives.map(one => one.line));
    const rows = largest.map(({ bytes, array, line }) => {
      const place = line && lines.has(line) ? this.collectives.lineButton(line) : line;
      return h('tr', h('td', bytesText(bytes)), h('td', array), h('td', place));
    });
    const caption = h('caption', 'Largest values on a device');
    this.largest.replaceChildren(h('table', caption, h('tbody', rows)));
  }
}
