/** The collectives of a program as a table; a person can choose one, or all of a line of code. */

import { collectivesOf } from '../../model/exchange';
import { collectiveText, groupsText } from '../../model/exchange_text';
import { bytesText, countText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { ShownCollective, ShownProgram } from '../../model/snapshot';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Dispatch } from '../parts/section';

/** Number of rows that are made at once; a button makes more. */
const PAGE = 300;
const HEADINGS = ['collective', 'along', 'a device', 'times', 'gradient', 'line'];
const MARK = '* put in by the compiler: a value lies otherwise than its user needs it';
const HINT = 'Choose one to see which devices exchange data; a line chooses all of its own.';

export class CollectiveTable {
  private readonly body = element('tbody', '', { role: 'rowgroup' });
  private readonly grid: HTMLElement;
  private readonly more = element('button', 'nbdist-button', { type: 'button' });
  private readonly mark = element('p', 'nbdist-note', {}, MARK);
  private readonly hint = element('p', 'nbdist-note', {}, HINT);
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
    private readonly announce: (text: string) => void,
  ) {
    const cells = HEADINGS.map(text => element('th', '', { role: 'columnheader' }, text));
    const head = element('thead', '', { role: 'rowgroup' });
    head.append(element('tr', '', { role: 'row' }, ...cells));
    this.grid = element(
      'table',
      '',
      { role: 'grid', tabindex: 0, 'aria-multiselectable': 'true', 'aria-label': 'Collectives' },
      head,
      this.body,
    );
    const scroll = element('div', 'nbdist-collectives', {}, this.grid, this.more);
    this.node = element('div', '', {}, this.hint, scroll, this.mark);
    this.grid.addEventListener('keydown', event => {
      this.press(event);
    });
    this.more.addEventListener('click', () => {
      this.pages += 1;
      this.build();
    });
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
    setShown(
      this.mark,
      collectives.some(one => one.resharding),
    );
    this.moveTo(Math.min(this.at, shown.length - 1));
  }

  private row(one: ShownCollective, number: number): HTMLElement {
    const texts = [
      `${one.kind}${one.resharding ? ' *' : ''}`,
      one.along,
      bytesText(one.bytes),
      one.times,
      one.direction,
    ];
    const cells = texts.map(text => element('td', '', { role: 'gridcell' }, text));
    const line = element('td', '', { role: 'gridcell' });
    if (one.line) line.append(this.lineButton(one.line, number));
    const row = element('tr', '', { role: 'row', id: `${this.prefix}-collective-${number}` });
    setAttributes(row, { 'data-resharding': one.resharding, title: one.arrays });
    row.append(...cells, line);
    row.addEventListener('click', () => {
      this.moveTo(number);
      this.choose(row.getAttribute('aria-selected') === 'true' ? [] : [number]);
    });
    return row;
  }

  /** Make the button of a line. It is no tab stop: Enter on the row does the same. */
  private lineButton(text: string, number: number): HTMLElement {
    const title = `Choose all collectives of ${text}`;
    const attributes = { type: 'button', tabindex: -1, title };
    const button = element('button', 'nbdist-source-line', attributes, text);
    button.addEventListener('click', event => {
      event.stopPropagation();
      this.moveTo(number);
      this.chooseLine(text);
    });
    return button;
  }

  /** Choose all collectives of a line of code. */
  chooseLine(line: string): void {
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
