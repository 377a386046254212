/** A compiled program: whether it fits, its memory, and the data that its devices exchange. */

import { bytesText } from '../../model/format';
import { marginText } from '../../model/program_text';
import type { Scene } from '../../model/scene';
import type { ShownProgram } from '../../model/snapshot';
import { element, setShown } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';
import { CollectiveTable } from './collective_table';
import { memoryBar } from './memory_bar';

function heading(program: ShownProgram): HTMLElement {
  const title = element('b', 'nbdist-program-title', {}, program.title);
  const margin = marginText(program);
  const node = element('p', '', { 'data-trouble': !program.fits }, title);
  if (margin) node.append(' ', element('span', 'nbdist-program-margin', {}, margin));
  return node;
}

/** Make the element with the compiler's message about a program that it refused. */
function refusal(text: string): HTMLElement {
  const summary = element('summary', '', {}, 'What the compiler says');
  const said = element('pre', 'nbdist-program-said', {}, text);
  return element('details', 'nbdist-program-refusal', { open: true }, summary, said);
}

/** Make the lines below the collectives: sums, and what is not counted. */
function below({ totals, unread, collectives, refusal }: ShownProgram): readonly HTMLElement[] {
  const none = !collectives.length && refusal === null ? ['Its devices exchange nothing.'] : [];
  const left = unread.length ? [`Not counted: ${unread.join('; ')}.`] : [];
  return [...none, ...totals, ...left].map(text => element('p', '', {}, text));
}

export class ProgramSection implements Section {
  private readonly top = element('div', 'nbdist-program-top');
  private readonly largest = element('div', 'nbdist-program-largest');
  private readonly bottom = element('div', 'nbdist-program-bottom');
  private readonly table: CollectiveTable;
  readonly node: HTMLElement;
  private readonly changed = changeOf();

  constructor(dispatch: Dispatch, prefix: string, announce: (text: string) => void) {
    this.table = new CollectiveTable(dispatch, prefix, announce);
    const parts = [this.top, this.table.node, this.bottom, this.largest];
    this.node = element('section', 'nbdist-program', { 'aria-label': 'Program' }, ...parts);
  }

  draw(scene: Scene): void {
    const { program } = scene.snapshot;
    this.table.draw(scene);
    if (!this.changed(program) || !program) return;
    const said = program.refusal === null ? [] : [refusal(program.refusal)];
    this.top.replaceChildren(heading(program), ...memoryBar(program), ...said);
    this.bottom.replaceChildren(...below(program));
    this.drawLargest(program);
  }

  private drawLargest({ largest, collectives }: ShownProgram): void {
    setShown(this.largest, largest.length > 0);
    const lines = new Set(collectives.map(one => one.line));
    const rows = largest.map(({ bytes, array, line }) => {
      const cells = [bytesText(bytes), array].map(text => element('td', '', {}, text));
      const place = element('td', '', {}, lines.has(line) && line ? this.lineButton(line) : line);
      return element('tr', '', {}, ...cells, place);
    });
    const caption = element('caption', '', {}, 'Largest values on a device');
    const body = element('tbody', '', {}, ...rows);
    this.largest.replaceChildren(element('table', '', {}, caption, body));
  }

  private lineButton(line: string): HTMLElement {
    const title = `Choose all collectives of ${line}`;
    const button = element('button', 'nbdist-source-line', { type: 'button', title }, line);
    button.addEventListener('click', () => {
      this.table.chooseLine(line);
    });
    return button;
  }
}
