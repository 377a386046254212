/** The form of a start, the body of a dialog: it shows the line that it makes, and each error beside its field. */

import type { Dialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

import { setAttributes, setText } from '../view/sections/parts/parts';
import { element } from './element';
import type { Checked } from './start_check';
import { partsOf, piecesOf, type Field, type Piece, type StartValues } from './start_line';

/** How long a person must have stopped typing before the kernel is asked, in milliseconds. */
const PAUSE_MS = 200;

export type Check = (pieces: readonly Piece[]) => Promise<Checked>;

type Control = HTMLInputElement | HTMLSelectElement;

interface Row {
  readonly label: string;
  readonly hint?: string;
  /** Values of a field with a few; the first is the default, and has its own words. */
  readonly options?: readonly (readonly [value: string, text: string])[];
  /** The option whose values the kernel knows. */
  readonly choices?: string;
}

const ROWS: Readonly<Record<Field, Row>> = {
  processes: { label: 'Processes', hint: '2, or one for each GPU' },
  devices: { label: 'Devices per process', hint: '1; of a GPU or TPU, all it has' },
  platform: { label: 'Platform', options: [['', 'as found']], choices: 'platform' },
  place: {
    label: 'Where',
    options: [
      ['here', 'this machine'],
      ['hosts', 'hosts, by ssh'],
      ['slurm', 'Slurm'],
    ],
  },
  hosts: { label: 'Hosts', hint: 'h1:2,h2:2' },
  framework: { label: 'Framework', options: [['', 'JAX']], choices: 'framework' },
  further: { label: 'Further options', hint: '--keep --env NAME=VALUE' },
};
const FIELDS = Object.keys(ROWS) as Field[];

/** One field, its control and the place of its error. */
class FieldRow {
  readonly node: HTMLElement;
  readonly control: Control;
  private readonly error: HTMLElement;

  constructor(field: Field, value: string) {
    const { label, hint, options } = ROWS[field];
    const id = `nbdist-start-${field}`;
    const attributes = { id, 'aria-describedby': `${id}-error`, 'data-field': field };
    this.error = element('span', 'error', { id: `${id}-error`, role: 'alert' });
    this.control = options
      ? element('select', 'control', attributes)
      : element('input', 'control', {
          ...attributes,
          type: 'text',
          placeholder: hint ?? '',
          spellcheck: 'false',
          autocomplete: 'off',
        });
    for (const [one, text] of options ?? []) this.add(one, text);
    // Not known from the kernel yet.
    if (options && !options.some(([one]) => one === value)) this.add(value, value);
    this.control.value = value;
    const name = element('label', 'label', { for: id }, label);
    this.node = element('div', 'row', {}, name, this.control, this.error);
  }

  add(value: string, text: string): void {
    if (!(this.control instanceof HTMLSelectElement)) return;
    if (Array.from(this.control.options).some(one => one.value === value)) return;
    this.control.append(element('option', 'option', { value }, text));
  }

  /** Show an error beside the field; JupyterLab's dialogs are not accepted with an invalid control. */
  say(text: string): void {
    setText(this.error, text);
    this.control.setCustomValidity(text);
    setAttributes(this.control, { 'aria-invalid': text ? 'true' : null });
  }
}

export class StartForm extends Widget implements Dialog.IBodyWidget<StartValues> {
  private readonly rows: ReadonlyMap<Field, FieldRow>;
  private readonly line = element('output', 'line', { 'aria-label': 'The cell' });
  private readonly wrong = element('p', 'error', { role: 'alert' });
  private timer: ReturnType<typeof setTimeout> | undefined;
  private checking = false;
  private again = false;

  constructor(
    values: StartValues,
    private readonly check: Check,
  ) {
    super();
    this.addClass('nbdist-lab-start');
    this.rows = new Map(FIELDS.map(field => [field, new FieldRow(field, values[field])]));
    this.node.append(...Array.from(this.rows.values(), row => row.node), this.line, this.wrong);
    this.node.addEventListener('input', () => {
      this.showLine();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.look(), PAUSE_MS);
    });
    this.showLine();
    void this.look();
  }

  override dispose(): void {
    clearTimeout(this.timer);
    super.dispose();
  }

  /** Return what the fields hold. */
  getValue(): StartValues {
    const held = FIELDS.map(field => [field, this.rows.get(field)?.control.value ?? '']);
    return Object.fromEntries(held) as StartValues;
  }

  private showLine(): void {
    const values = this.getValue();
    const hosts = this.rows.get('hosts');
    if (hosts) hosts.node.hidden = values.place !== 'hosts';
    // A line breaks between options, not at their hyphens.
    const parts = partsOf(values).flatMap(part => [element('span', 'part', {}, part), ' ']);
    this.line.replaceChildren(...parts.slice(0, -1));
  }

  /** Ask the kernel about the newest content, one question at a time. */
  private async look(): Promise<void> {
    if (this.checking) {
      this.again = true;
      return;
    }
    this.checking = true;
    const asked = this.getValue();
    const checked = await this.check(piecesOf(asked));
    this.checking = false;
    if (this.isDisposed) return;
    this.write(checked);
    if (!this.again) return;
    this.again = false;
    await this.look();
  }

  private write({ error, choices }: Checked): void {
    for (const [field, row] of this.rows) {
      row.say(error?.field === field ? error.text : '');
      for (const value of choices[ROWS[field].choices ?? ''] ?? []) {
        if (value !== 'jax') row.add(value, value);
      }
    }
    setText(this.wrong, error?.field === null ? error.text : '');
    this.wrong.classList.toggle('jp-mod-error', this.wrong.textContent !== '');
    // JupyterLab looks for invalid fields when something is typed; the answer came later.
    this.line.dispatchEvent(new Event('input'));
  }
}
