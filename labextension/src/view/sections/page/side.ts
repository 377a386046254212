/** The column beside the mesh: the list of arrays and, if there are any, a model's layout and a program. */

import type { Scene } from '../../model/scene';
import type { Snapshot } from '../../model/snapshot';
import type { Side as Shown } from '../../model/state';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

const NAMES: readonly Shown[] = ['program', 'arrays', 'layout'];

/** Return the panes that have something to show. The arrays are missing only if a program has none. */
function availableIn({ program, arrays, models }: Snapshot): readonly Shown[] {
  const there: Readonly<Record<Shown, boolean>> = {
    program: program !== null,
    arrays: program === null || arrays.length > 0,
    layout: models.length > 0,
  };
  return NAMES.filter(name => there[name]);
}

/**
 * Return the label of a tab. For the layout it counts variables that are whole although there are
 * rules: `layout · 3 not split`.
 */
function labelOf(name: Shown, { models }: Snapshot): string {
  if (name !== 'layout') return name;
  const missed = models.flatMap(model => model.variables).filter(one => one.missed).length;
  return missed ? `layout · ${missed} not split` : 'layout';
}

export class Side implements Section {
  private readonly tabs: readonly HTMLButtonElement[];
  private readonly bar: HTMLElement;
  private readonly column: HTMLElement;
  private available: readonly Shown[] = [];
  readonly node: HTMLElement;
  private readonly changed = changeOf();

  constructor(
    private readonly dispatch: Dispatch,
    private readonly panes: Readonly<Record<Shown, HTMLElement>>,
    prefix: string,
  ) {
    this.tabs = NAMES.map(name => this.tab(name, `${prefix}-side-${name}`));
    const attributes = { role: 'tablist', 'aria-label': 'Beside the mesh' };
    this.bar = element('div', 'nbdist-tab-list nbdist-side-tabs', attributes, ...this.tabs);
    NAMES.forEach(name => {
      setAttributes(panes[name], { id: `${prefix}-side-${name}` });
    });
    const shown = NAMES.map(name => panes[name]);
    this.column = element('div', 'nbdist-side', {}, this.bar, ...shown);
    this.node = element('div', 'nbdist-right', {}, this.column);
  }

  draw({ snapshot, state }: Scene): void {
    const { models, program, arrays } = snapshot;
    if (!this.changed(models, program, arrays.length > 0, state.side)) return;
    const available = (this.available = availableIn(snapshot));
    const shown = available.includes(state.side) ? state.side : (available[0] ?? 'arrays');
    setShown(this.bar, available.length > 1);
    setAttributes(this.column, { 'data-shown': shown });
    NAMES.forEach((name, i) => {
      setShown(this.panes[name], name === shown);
      const tab = this.tabs[i];
      if (!tab) return;
      const on = name === shown;
      setShown(tab, available.includes(name));
      setText(tab, labelOf(name, snapshot));
      setAttributes(tab, { 'aria-selected': on ? 'true' : 'false', tabindex: on ? 0 : -1 });
    });
  }

  private tab(name: Shown, pane: string): HTMLButtonElement {
    const attributes = { role: 'tab', type: 'button', 'aria-controls': pane };
    const tab = element('button', 'nbdist-button nbdist-side-tab', attributes, name);
    tab.addEventListener('click', () => {
      this.dispatch({ type: 'side', side: name });
    });
    tab.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const { available } = this;
      const next =
        available[(available.indexOf(name) + step + available.length) % available.length];
      const other = next && this.tabs[NAMES.indexOf(next)];
      if (!other) return;
      other.click();
      other.focus();
    });
    return tab;
  }
}
