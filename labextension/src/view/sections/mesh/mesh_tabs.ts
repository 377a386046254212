/** Choice among several meshes: tabs if they are few, else a list. */

import type { Grid } from '../../model/grid';
import type { Scene } from '../../model/scene';
import { element, setAttributes, setShown } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

const MOST_TABS = 5;

export class MeshTabs implements Section {
  readonly node = element('div', 'nbdist-tabs');
  private readonly changed = changeOf();
  private ids: readonly string[] = [];
  private tabs: readonly HTMLButtonElement[] = [];

  constructor(
    private readonly dispatch: Dispatch,
    private readonly panelId: string,
  ) {}

  draw(scene: Scene): void {
    const { grids, grid } = scene;
    if (!this.changed(grids, grid.id)) return;
    setShown(this.node, grids.length > 1);
    // The buttons stay as long as the meshes are the same, so that a click or the focus is not lost.
    const labels = grids.map(({ id, label }) => `${id} ${label}`);
    if (labels.join('\n') !== this.ids.join('\n')) {
      this.ids = labels;
      this.build(grids);
    }
    this.tabs.forEach((tab, i) => {
      const on = grids[i]?.id === grid.id;
      setAttributes(tab, { 'aria-selected': on ? 'true' : 'false', tabindex: on ? 0 : -1 });
    });
    const select = this.node.querySelector('select');
    if (select) select.value = grid.id;
  }

  private build(grids: readonly Grid[]): void {
    this.tabs = [];
    if (grids.length > MOST_TABS) {
      this.node.replaceChildren(this.list(grids));
      return;
    }
    this.tabs = grids.map((grid, i) => this.tab(grid, i));
    const attributes = { role: 'tablist', 'aria-label': 'Meshes' };
    this.node.replaceChildren(element('div', 'nbdist-tab-list', attributes, ...this.tabs));
  }

  private tab(grid: Grid, number: number): HTMLButtonElement {
    const attributes = { role: 'tab', type: 'button', 'aria-controls': this.panelId };
    const tab = element('button', 'nbdist-tab', attributes, grid.label);
    tab.addEventListener('click', () => {
      this.dispatch({ type: 'mesh', id: grid.id });
    });
    tab.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = this.tabs[(number + step + this.tabs.length) % this.tabs.length];
      next?.click();
      next?.focus();
    });
    return tab;
  }

  private list(grids: readonly Grid[]): HTMLElement {
    const options = grids.map(({ id, label }) => element('option', '', { value: id }, label));
    const select = element('select', 'nbdist-select', { 'aria-label': 'Mesh' }, ...options);
    select.addEventListener('change', () => {
      this.dispatch({ type: 'mesh', id: select.value });
    });
    return select;
  }
}
