/** Layout of a model's variables: the rule that matched each, the axes it asks for, and what each device holds. */

import { remember } from '../../model/memo';
import { keyOfModel, modelOf, sizeText, titleOf, totalsTexts } from '../../model/model_text';
import type { Scene } from '../../model/scene';
import { shortenAll } from '../../model/shorten';
import type { Array as NamedArray, Model, Variable } from '../../model/snapshot';
import type { Look } from '../../paint/theme';
import { breakable, element, setAttributes, setShown, setText } from '../parts/element';
import {
  layoutForm,
  layoutRow,
  textsOfVariable,
  type LayoutForm,
  type VariableTexts,
} from './layout_row';
import { rowAfter } from './list_keys';
import { changeOf, type Dispatch, type Section } from '../parts/section';
import { VirtualList } from './virtual_list';

const HEADINGS = ['variable', 'type', 'group', 'rule', 'asks for', 'lies', 'device'];

interface Row {
  readonly variable: Variable;
  readonly texts: VariableTexts;
}

/** Return a row for each variable, those with a flag first. */
function rowsOf(model: Model, ruled: boolean): readonly Row[] {
  const rows = model.variables.map(variable => ({
    variable,
    texts: textsOfVariable(variable, ruled),
  }));
  return [...rows.filter(row => row.texts.flag), ...rows.filter(row => !row.texts.flag)];
}

/** Return the array of a variable, in the version that this model's processes have; null if it is not listed. */
function arrayOf(variable: Variable, model: Model, arrays: readonly NamedArray[]) {
  const versions = arrays.filter(array => array.path === variable.array);
  const processes = model.processes.join();
  const same = versions.find(array => array.processes.join() === processes);
  const [first] = model.processes;
  const holds = (array: NamedArray): boolean =>
    first !== undefined && array.processes.includes(first);
  return same ?? versions.find(holds) ?? versions[0] ?? null;
}

/** Make a warning about rules that match none of this model's variables. */
function unmatchedNodes({ unmatched }: Model): HTMLElement[] {
  if (unmatched.length === 0) return [];
  const rules = unmatched.flatMap((pattern, i) => [
    i ? ', ' : ' ',
    element('code', '', {}, ...breakable(pattern)),
  ]);
  const words = unmatched.length === 1 ? 'rule that matches nothing:' : 'rules that match nothing:';
  return [element('span', 'nbdist-warning', {}, words, ...rules)];
}

export class LayoutSection implements Section {
  private readonly title = element('h4', 'nbdist-title');
  private readonly select = element('select', 'nbdist-select', { 'aria-label': 'Model' });
  private readonly facts = element('div', 'nbdist-layout-facts');
  private readonly heading = element('div', 'nbdist-array nbdist-array-head', {
    'aria-hidden': 'true',
  });
  private readonly box: HTMLElement;
  readonly node = element('section', 'nbdist-layout', { 'aria-label': 'Layout of a model' });
  private readonly list: VirtualList;
  private readonly changed = changeOf();
  private readonly factsChanged = changeOf();
  private readonly rows = remember(rowsOf);
  private readonly form = remember((rows: readonly Row[], width: number, character: number) =>
    layoutForm(
      rows.map(row => row.texts),
      width,
      character,
    ),
  );
  private readonly names = remember((rows: readonly Row[], length: number) =>
    shortenAll(
      rows.map(row => row.texts.path),
      length,
    ),
  );
  private shown: readonly Row[] = [];
  /** Whether any row has a flag; then all rows keep room for one, so that all paths are aligned. */
  private signs = false;
  private model: Model | null = null;
  private active = -1;
  private scene: Scene | null = null;
  private look: Look | null = null;

  constructor(
    private readonly dispatch: Dispatch,
    private readonly prefix: string,
    private readonly announce: (text: string) => void,
  ) {
    const id = `${prefix}-layout`;
    const attributes = { role: 'listbox', id, tabindex: 0, 'aria-label': 'Variables' };
    this.box = element('div', 'nbdist-variables', attributes);
    this.heading.append(...HEADINGS.map(text => element('span', '', {}, text)));
    const top = element('div', 'nbdist-layout-top', {}, this.title, this.select, this.facts);
    this.node.append(top, this.heading, this.box);
    this.list = new VirtualList(this.box);
    this.select.addEventListener('change', () => {
      this.active = -1;
      this.dispatch({ type: 'model', key: this.select.value });
    });
    this.box.addEventListener('keydown', event => {
      this.press(event);
    });
  }

  draw(scene: Scene, look: Look): void {
    [this.scene, this.look] = [scene, look];
    const { models, arrays } = scene.snapshot;
    this.model = modelOf(models, scene.state.model);
    if (!this.model) return;
    const width = Math.floor(this.node.clientWidth);
    this.drawFacts(scene, models, this.model);
    const ruled = scene.snapshot.distributions.some(({ rules }) => rules.length > 0);
    this.shown = this.rows(this.model, ruled);
    this.active = Math.min(this.active, this.shown.length - 1);
    const inputs = [this.shown, scene.array, arrays, width, look.character, this.active];
    if (!this.changed(...inputs) || width === 0) return;
    this.drawRows(scene, this.model, this.form(this.shown, width, look.character));
  }

  private drawFacts(scene: Scene, models: readonly Model[], model: Model): void {
    if (!this.factsChanged(models, model, scene.directory)) return;
    const options = models.map(one =>
      element('option', '', { value: keyOfModel(one) }, titleOf(one)),
    );
    setShown(this.select, models.length > 1);
    if (models.length > 1) {
      this.select.replaceChildren(...options);
      this.select.value = keyOfModel(model);
    }
    const name = models.length > 1 ? [] : [' of ', element('em', '', {}, titleOf(model))];
    this.title.replaceChildren(element('span', '', {}, 'layout', ...name));
    const texts = [sizeText(model), ...totalsTexts(model, scene.directory.devices)];
    const lines = texts.map(text => element('span', '', {}, text));
    this.facts.replaceChildren(...lines, ...unmatchedNodes(model));
  }

  private drawRows(scene: Scene, model: Model, form: LayoutForm): void {
    const names = this.names(this.shown, form.nameLength);
    this.signs = this.shown.some(row => row.texts.flag);
    this.node.style.setProperty('--columns', form.columns);
    setAttributes(this.node, { 'data-form': form.kind });
    setShown(this.heading, form.kind === 'line');
    const ruled = this.shown.some(row => row.texts.rule);
    [...this.heading.children].forEach((cell, i) => {
      const unused = !ruled && (i === 3 || i === 4);
      setText(cell, unused ? '' : (HEADINGS[i] ?? ''));
    });
    this.list.show({
      count: this.shown.length,
      height: i => {
        const row = this.shown[i];
        return row ? form.height(row.texts) : 0;
      },
      render: i => this.row(scene, model, i, names, form.kind),
    });
    const column = this.node.closest<HTMLElement>('.nbdist-right');
    column?.style.setProperty('--rows', `${this.list.total}px`);
    const id = this.active >= 0 ? this.rowId(this.active) : null;
    setAttributes(this.box, { 'aria-activedescendant': id });
  }

  private row(
    scene: Scene,
    model: Model,
    i: number,
    names: ReadonlyMap<string, string>,
    kind: LayoutForm['kind'],
  ): HTMLElement {
    const shown = this.shown[i];
    if (!shown) return element('div');
    const { variable, texts } = shown;
    const array = arrayOf(variable, model, scene.snapshot.arrays);
    const state = {
      id: this.rowId(i),
      name: names.get(texts.path) ?? texts.path,
      picked: array !== null && array === scene.array,
      active: i === this.active,
      pickable: array !== null,
      signs: this.signs,
      position: i,
      count: this.shown.length,
    };
    const node = layoutRow(texts, state, kind);
    node.addEventListener('click', () => {
      this.active = i;
      this.choose(i);
    });
    return node;
  }

  private rowId(i: number): string {
    return `${this.prefix}-variable-${i}`;
  }

  /** Pick the array of a variable, or let go of it if it is picked. */
  private choose(i: number): void {
    const row = this.shown[i];
    if (!row || !this.model || !this.scene) return;
    const array = arrayOf(row.variable, this.model, this.scene.snapshot.arrays);
    if (!array) {
      this.announce(`${row.texts.path} is not among the arrays`);
      return;
    }
    const released = array === this.scene.array;
    this.dispatch({ type: 'pick', array: released ? null : array });
    this.announce(released ? `${array.path} no longer shown` : `Showing ${array.path}`);
  }

  private press(event: KeyboardEvent): void {
    const target = rowAfter(event.key, this.active, this.shown.length, this.box.clientHeight);
    if (target !== null) {
      this.active = target;
      if (this.scene && this.look) this.draw(this.scene, this.look);
      this.list.reveal(target);
    } else if ((event.key === 'Enter' || event.key === ' ') && this.active >= 0) {
      this.choose(this.active);
    } else return;
    event.preventDefault();
  }
}
