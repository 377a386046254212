/** An item in a code cell's toolbar: where the cell runs, and a menu that changes its first line. */

import { InputDialog } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';

import type { ActiveSession } from './active_session';
import { choices, onHint, retargeted, targetOf, targetText, type Target } from './cell_target';
import { element } from './element';
import type { Preferences } from './preferences';
import { sessionOf } from './situation';

/** The entry of the menu that asks for the processes. */
const ASK = 'some processes…';

export class TargetItem extends Widget {
  private readonly select = element('select', 'target', {
    'aria-label': 'Where this cell runs',
    // Arrows and letters choose here; in the notebook they are shortcuts.
    'data-lm-suppress-shortcuts': 'true',
  });
  private offered = new Map<string, Target>();

  constructor(
    private readonly cell: Cell,
    private readonly tracker: INotebookTracker,
    private readonly active: ActiveSession,
    private readonly preferences: Preferences,
  ) {
    super();
    this.node.append(this.select);
    this.select.addEventListener('change', () => void this.choose(this.select.value));
    this.select.addEventListener('keydown', ({ key }) => {
      // `activate` of the notebook leaves a focus that is inside the cell where it is.
      if (key === 'Escape') this.cell.node.focus();
    });
    cell.model.sharedModel.changed.connect(this.write, this);
    active.changed.connect(this.write, this);
    preferences.changed.connect(this.write, this);
    this.write();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.cell.model.sharedModel.changed.disconnect(this.write, this);
    this.active.changed.disconnect(this.write, this);
    this.preferences.changed.disconnect(this.write, this);
    super.dispose();
  }

  private get source(): string {
    return this.cell.model.sharedModel.getSource();
  }

  private get panel(): NotebookPanel | null {
    return this.tracker.find(one => one.content.widgets.includes(this.cell)) ?? null;
  }

  /** The number of processes of this notebook's session, 0 without one, and its mode. */
  private get session(): { readonly processes: number; readonly onProcesses: boolean } {
    const { panel } = this;
    const source = panel && this.active.sourceOf(panel);
    const session = sessionOf(source?.newest()?.snapshot ?? null);
    return { processes: session?.processes ?? 0, onProcesses: source?.onProcesses ?? false };
  }

  private write(): void {
    const { processes, onProcesses } = this.session;
    const now = targetOf(this.source, onProcesses);
    // In notebooks without nbdist there is nothing to choose.
    const concerned = processes > 0 || /^\s*%%dist/.test(this.source);
    const can = this.cell.model.type === 'code' && now.kind !== 'fixed';
    this.setHidden(!concerned || !can || !this.preferences.cellTarget);
    const offered = [...choices(processes), now].map(one => [targetText(one), one] as const);
    const before = [...this.offered.keys()].join('\n');
    this.offered = new Map(offered);
    if (before !== [...this.offered.keys()].join('\n')) {
      const texts = [...this.offered.keys(), ASK];
      const options = texts.map(text => element('option', 'option', {}, text));
      this.select.replaceChildren(...options);
    }
    this.select.value = targetText(now);
  }

  private async choose(text: string): Promise<void> {
    const { processes, onProcesses } = this.session;
    const target = text === ASK ? await this.ask(processes) : this.offered.get(text);
    if (target && !this.isDisposed)
      this.cell.model.sharedModel.setSource(retargeted(this.source, target, onProcesses));
    if (!this.isDisposed) this.write();
  }

  private async ask(processes: number): Promise<Target | null> {
    const { value } = await InputDialog.getText({
      title: 'Run the cell on some processes',
      label: onHint(processes),
      placeholder: '0,2',
      required: true,
      okLabel: 'Choose',
    });
    const on = value?.trim();
    return on ? { kind: 'some', on } : null;
  }
}
