/** The page: the sections in their order, and the column beside the mesh that shows one of its panes. */

import type { Scene, sceneMaker } from '../../model/scene';
import type { Snapshot } from '../../model/snapshot';
import type { Side, State } from '../../model/state';
import type { Look } from '../../paint/look';
import { ArrayDetail } from '../array/array';
import { DeviceDetail, DeviceTable } from '../device/device';
import { ArrayList } from '../lists/array_list';
import { LayoutSection } from '../lists/layout_list';
import { Legend } from '../mesh/legend';
import { MeshSection } from '../mesh/mesh';
import {
  changeOf,
  elementsIn,
  Fold,
  setAttributes,
  setChosen,
  setShown,
  setText,
  tab,
  type Dispatch,
  type Section,
} from '../parts/parts';
import { ProgramSection } from '../program/program';
import { Distributions } from '../session/distributions';
import { Processes } from '../session/processes';
import { Footer, Header, Notices } from '../session/session';
import { Strip } from '../session/strip';

const h = elementsIn('page');

const NAMES: readonly Side[] = ['program', 'arrays', 'layout'];

/** Return the panes that have something to show. The arrays are missing only if a program has none. */
function availableIn({ program, arrays, models }: Snapshot): readonly Side[] {
  const there: Readonly<Record<Side, boolean>> = {
    program: program !== null,
    arrays: program === null || arrays.length > 0,
    layout: models.length > 0,
  };
  return NAMES.filter(name => there[name]);
}

/** Return the label of a tab. For the layout it counts variables that no rule matches: `layout · 3 without a rule`. */
function labelOf(name: Side, { models }: Snapshot): string {
  if (name !== 'layout') return name;
  const missed = models.flatMap(model => model.variables).filter(one => one.missed).length;
  return missed ? `layout · ${missed} without a rule` : 'layout';
}

/** The column beside the mesh: the list of arrays and, if there are any, a model's layout and a program. */
class SideColumn implements Section {
  private readonly tabs: readonly HTMLButtonElement[];
  private readonly bar: HTMLElement;
  private readonly column: HTMLElement;
  private readonly fold: Fold;
  readonly node: HTMLElement;
  private readonly changed = changeOf();

  constructor(
    dispatch: Dispatch,
    private readonly panes: Readonly<Record<Side, HTMLElement>>,
    prefix: string,
  ) {
    const ids = NAMES.map(name => `${prefix}-side-${name}`);
    this.tabs = NAMES.map((name, i) =>
      tab(name, ids[i] ?? '', () => {
        dispatch({ type: 'side', side: name });
      }),
    );
    const attributes = { role: 'tablist', 'aria-label': 'Beside the mesh' };
    this.bar = h('div.side-tabs+tabs', attributes, this.tabs);
    const shown = NAMES.map(name => panes[name]);
    shown.forEach((pane, i) => {
      setAttributes(pane, { id: ids[i] ?? '' });
    });
    this.column = h('div.side', this.bar, shown);
    this.fold = new Fold('Arrays', [this.column]);
    this.node = h('div.right', { 'data-column': true }, this.fold.node);
  }

  draw({ snapshot, state }: Scene): void {
    const { models, program, arrays } = snapshot;
    if (!this.changed(models, program, arrays.length > 0, state.side)) return;
    const available = availableIn(snapshot);
    const shown = available.includes(state.side) ? state.side : (available[0] ?? 'arrays');
    setShown(this.bar, available.length > 1);
    this.fold.name({ program: 'Program', arrays: 'Arrays', layout: 'Layout of a model' }[shown]);
    setAttributes(this.column, { 'data-shown': shown });
    NAMES.forEach((name, i) => {
      setShown(this.panes[name], name === shown);
      const label = this.tabs[i];
      if (!label) return;
      setShown(label, available.includes(name));
      setText(label, labelOf(name, snapshot));
      setChosen(label, name === shown);
    });
  }
}

export class Page {
  readonly header = new Header();
  readonly list: ArrayList;
  readonly waiting = h('p.waiting+soft', 'Waiting for the session');
  readonly root = h('div', { role: 'region', 'aria-label': 'nbdist session' });
  private readonly content = h('div');
  private readonly mesh: MeshSection;
  private readonly detail = new DeviceDetail();
  /** The one polite live region: it announces what the person's own choice did, never that data changed. */
  private readonly live = h('div+hidden', { role: 'status', 'aria-live': 'polite' });
  private readonly strip: Strip;
  private readonly processes: Fold;
  private readonly notices = new Notices();
  private readonly sections: readonly Section[];
  private readonly calmText = h('p.calm+soft', 'No problem.');
  /** Whether to say that there is no problem: nothing else is shown. */
  private calm = false;

  /**
   * `cursor` returns the device under the keyboard's ring now. Ids begin with `prefix`. If `form`
   * names a section, the others are not shown.
   */
  constructor(dispatch: Dispatch, cursor: () => string | null, prefix: string, form: unknown) {
    const { header, notices, detail, say } = this;
    const [processes, footer] = [new Processes(), new Footer()];
    this.processes = new Fold('Processes', [processes.node]);
    this.mesh = new MeshSection(dispatch, prefix, say, cursor);
    const [distributions, array] = [new Distributions(dispatch), new ArrayDetail(dispatch)];
    const left = [distributions, this.mesh, detail, new Legend(), array, new DeviceTable()];
    this.list = new ArrayList(dispatch, prefix, say);
    const layout = new LayoutSection(dispatch, prefix, say);
    const program = new ProgramSection(dispatch, prefix, say);
    const panes = { program: program.node, arrays: this.list.node, layout: layout.node };
    const side = new SideColumn(dispatch, panes, prefix);
    const top = [header, processes, notices];
    this.strip = new Strip(dispatch);
    this.sections = [...top, ...left, side, this.list, layout, program, footer];
    const nodes = (sections: readonly Section[]): HTMLElement[] => sections.map(one => one.node);
    const mesh = new Fold('Mesh', [h('div.left', nodes(left))]);
    const body = h('div.body', mesh.node, side.node);
    const sections = {
      problem: notices.node,
      processes: this.processes.node,
      mesh: mesh.node,
      arrays: side.node,
    };
    if (typeof form === 'string' && form in sections) {
      const alone = sections[form as keyof typeof sections];
      for (const node of [...Object.values(sections), body, footer.node])
        setAttributes(node, { 'data-left-out': !node.contains(alone) });
      setAttributes(body, { 'data-alone': true });
      this.calm = form === 'problem';
    }
    this.content.append(
      header.node,
      this.processes.node,
      notices.node,
      this.calmText,
      body,
      footer.node,
    );
    this.root.className = 'nbdist';
    // Until the first drawing, only `waiting` is filled.
    setShown(this.strip.node, false);
    setShown(this.content, false);
    this.root.append(h('div.frame', this.waiting, this.strip.node, this.content, this.live));
  }

  readonly say = (text: string): void => {
    setText(this.live, text);
  };

  draw(state: State, make: ReturnType<typeof sceneMaker>, look: Look): void {
    const { snapshot } = state;
    setShown(this.waiting, snapshot === null);
    setShown(this.content, snapshot !== null && state.open);
    setShown(this.strip.node, snapshot !== null && state.brief);
    if (!snapshot) return;
    const scene = make(state, snapshot);
    this.strip.draw(scene);
    if (!state.open) return;
    setShown(this.processes.node, snapshot.processes.length > 0);
    for (const section of this.sections) {
      section.draw(scene, look);
      // Now that the mesh is drawn, what stands below it knows what its cells are.
      if (section === this.mesh) this.detail.hosts = this.mesh.drawsHosts;
    }
    setShown(this.calmText, this.calm && this.notices.node.hidden);
  }
}
