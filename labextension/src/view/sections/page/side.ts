/** What stands beside the mesh: the list of arrays or, where there are models, how one of them lies. */

import type { Scene } from '../../model/scene';
import type { Snapshot } from '../../model/snapshot';
import type { Side as Shown } from '../../model/state';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

const NAMES: readonly Shown[] = ['arrays', 'layout'];

/** `layout, 3 to look at`; the variables that are whole although there are rules. */
function labelOf(name: Shown, { models }: Snapshot): string {
  if (name === 'arrays') return 'arrays';
  const missed = models.flatMap(model => model.variables).filter(one => one.missed).length;
  return missed ? `layout · ${missed} not split` : 'layout';
}

export class Side implements Section {
  private readonly tabs: readonly HTMLButtonElement[];
  private readonly bar: HTMLElement;
  readonly node: HTMLElement;
  private readonly changed = changeOf();

  constructor(
    private readonly dispatch: Dispatch,
    private readonly panes: Readonly<Record<Shown, HTMLElement>>,
    prefix: string,
  ) {
    this.tabs = NAMES.map((name, i) => this.tab(name, i, `${prefix}-side-${name}`));
    const attributes = { role: 'tablist', 'aria-label': 'Arrays or layout' };
    this.bar = element('div', 'nbdist-tab-list nbdist-side-tabs', attributes, ...this.tabs);
    NAMES.forEach(name => {
      setAttributes(panes[name], { id: `${prefix}-side-${name}` });
    });
    const column = element('div', 'nbdist-side', {}, this.bar, panes.arrays, panes.layout);
    this.node = element('div', 'nbdist-right', {}, column);
  }

  draw({ snapshot, state }: Scene): void {
    if (!this.changed(snapshot.models, state.side)) return;
    const several = snapshot.models.length > 0;
    const shown: Shown = several ? state.side : 'arrays';
    setShown(this.bar, several);
    NAMES.forEach((name, i) => {
      setShown(this.panes[name], name === shown);
      const tab = this.tabs[i];
      if (!tab) return;
      const on = name === shown;
      setText(tab, labelOf(name, snapshot));
      setAttributes(tab, { 'aria-selected': on ? 'true' : 'false', tabindex: on ? 0 : -1 });
    });
  }

  private tab(name: Shown, number: number, pane: string): HTMLButtonElement {
    const attributes = { role: 'tab', type: 'button', 'aria-controls': pane };
    const tab = element('button', 'nbdist-button nbdist-side-tab', attributes, name);
    tab.addEventListener('click', () => {
      this.dispatch({ type: 'side', side: name });
    });
    tab.addEventListener('keydown', event => {
      if (event.key !== 'ArrowRight' && event.key !== 'ArrowLeft') return;
      event.preventDefault();
      const other = this.tabs[1 - number];
      other?.click();
      other?.focus();
    });
    return tab;
  }
}
