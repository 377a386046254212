/** Layout of a model's variables: the rule that matched each, the axes it asks for, and what each device holds. */

import { layoutForm, type LayoutForm } from '../../layout/list_layout';
import {
  FLAGS,
  keyOfModel,
  describeVariable,
  modelOf,
  saysAsked,
  sizeText,
  textsOfVariable,
  titleOf,
  totalsTexts,
  type VariableTexts,
} from '../../model/model_text';
import { remember, type Scene } from '../../model/scene';
import type { Array as NamedArray, Model, Variable } from '../../model/snapshot';
import type { Look } from '../../paint/look';
import {
  breakable,
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  setText,
  specNode,
  type Announce,
  type Dispatch,
  type Section,
} from '../parts/parts';
import { nameNode } from './array_rows';
import { RowList } from './rows';

const h = elementsIn('lists');

const HEADINGS = ['variable', 'type', 'group', 'rule', 'asks for', 'spec', 'per device'];

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
  const rules = unmatched.flatMap((pattern, i) => [i ? ', ' : ' ', h('code', breakable(pattern))]);
  const words = unmatched.length === 1 ? 'rule that matches nothing:' : 'rules that match nothing:';
  return [h('span+warning', words, rules)];
}

const SIGN: Readonly<Record<'missed' | 'differs', string>> = { missed: '!', differs: '≠' };

interface LayoutRowState {
  readonly id: string;
  readonly picked: boolean;
  readonly active: boolean;
  readonly pickable: boolean;
  /** Whether room is kept for a flag. */
  readonly signs: boolean;
  readonly position: number;
  readonly count: number;
}

/** Make the row of a variable: a variable, the rule that matched it, and its layout on the devices. */
function layoutRow(
  texts: VariableTexts,
  state: LayoutRowState,
  kind: LayoutForm['kind'],
): HTMLElement {
  const { flag } = texts;
  const signed = flag !== null || (state.signs && kind === 'line');
  const attributes = { title: flag && FLAGS[flag], 'aria-hidden': 'true' };
  const sign = h('span.flag', attributes, flag && SIGN[flag]);
  const path = h('span.path', signed && sign, nameNode(texts.path, texts.path));
  const type = h('span.type', texts.type);
  const group = h('span.group', texts.group);
  const rule = h('span.rule', { 'data-none': !texts.matched }, texts.rule);
  const [axes, spec] = [specNode(texts.axes), specNode(texts.spec)];
  const bytes = h('span.bytes', texts.bytes);
  const by = texts.rule && [texts.matched ? ' rule ' : ' ', rule];
  const asked = texts.axes.length > 0 && saysAsked(texts) && [' asks for ', axes];
  const columns =
    kind === 'line'
      ? [path, type, group, rule, axes, spec, bytes]
      : [path, bytes, h('span.lies', type, ' ', spec, by, asked), group];
  const spaced = columns.flatMap(column => [column, ' ']);
  const row = h('div.row', { role: 'option', id: state.id }, spaced);
  setAttributes(row, {
    'aria-description': describeVariable(texts),
    'aria-selected': String(state.picked),
    'aria-disabled': state.pickable ? null : 'true',
    'aria-posinset': state.position + 1,
    'aria-setsize': state.count,
    'data-active': state.active,
    'data-flag': flag,
  });
  return row;
}

export class LayoutSection implements Section {
  private readonly title = h('h4.title+title+wrap');
  private readonly select = h('select.select+select', { 'aria-label': 'Model' });
  private readonly facts = h('div.facts+wrap');
  readonly node = h('section.list.layout', { 'aria-label': 'Layout of a model' });
  private readonly list: RowList;
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
  private shown: readonly Row[] = [];
  /** Whether any row has a flag; then all rows keep room for one, so that all paths are aligned. */
  private signs = false;
  private model: Model | null = null;
  private active = -1;
  private scene: Scene | null = null;
  private look: Look | null = null;

  constructor(
    private readonly dispatch: Dispatch,
    prefix: string,
    private readonly announce: Announce,
  ) {
    const attributes = { role: 'listbox', id: `${prefix}-layout`, 'aria-label': 'Variables' };
    this.list = new RowList(this.node, `${prefix}-variable`, HEADINGS, attributes);
    const top = h('div.top+wrap', this.title, this.select, this.facts);
    this.node.append(top, this.list.heading, this.list.box);
    this.select.addEventListener('change', () => {
      this.active = -1;
      this.dispatch({ type: 'model', key: this.select.value });
    });
    this.list.box.addEventListener('keydown', event => {
      this.press(event);
    });
  }

  draw(scene: Scene, look: Look): void {
    [this.scene, this.look] = [scene, look];
    const { models, arrays } = scene.snapshot;
    this.model = modelOf(models, scene.state.model);
    if (!this.model) return;
    const width = Math.floor(this.node.clientWidth / look.unit);
    this.drawFacts(scene, models, this.model);
    const ruled = scene.snapshot.distributions.some(({ rules }) => rules.length > 0);
    this.shown = this.rows(this.model, ruled);
    this.active = Math.min(this.active, this.shown.length - 1);
    const inputs = [this.shown, scene.array, arrays, width, look, this.active];
    if (!this.changed(...inputs) || width === 0) return;
    this.drawRows(scene, this.model, this.form(this.shown, width, look.character), look);
  }

  private drawFacts(scene: Scene, models: readonly Model[], model: Model): void {
    if (!this.factsChanged(models, model, scene.directory)) return;
    const options = models.map(one => h('option', { value: keyOfModel(one) }, titleOf(one)));
    setShown(this.select, models.length > 1);
    if (models.length > 1) {
      this.select.replaceChildren(...options);
      this.select.value = keyOfModel(model);
    }
    const name = models.length === 1 && [' of ', h('em', titleOf(model))];
    this.title.replaceChildren(h('span', 'layout', name));
    const texts = [sizeText(model), ...totalsTexts(model, scene.directory.numbers)];
    const lines = texts.map(text => h('span', text));
    this.facts.replaceChildren(...lines, ...unmatchedNodes(model));
  }

  private drawRows(scene: Scene, model: Model, form: LayoutForm, look: Look): void {
    this.signs = this.shown.some(row => row.texts.flag);
    const ruled = this.shown.some(row => row.texts.rule);
    [...this.list.heading.children].forEach((cell, i) => {
      const unused = !ruled && (i === 3 || i === 4);
      setText(cell, unused ? '' : (HEADINGS[i] ?? ''));
    });
    const { shown, active } = this;
    const rows = {
      count: shown.length,
      active,
      form,
      height: (i: number) => (shown[i] ? form.height(shown[i].texts) : 0),
      render: (i: number) => this.row(scene, model, i, form.kind),
    };
    this.list.show(rows, look);
  }

  private row(scene: Scene, model: Model, i: number, kind: LayoutForm['kind']): HTMLElement {
    const shown = this.shown[i];
    if (!shown) return h('div');
    const { variable, texts } = shown;
    const array = arrayOf(variable, model, scene.snapshot.arrays);
    const state = {
      id: this.list.idOf(i),
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
    const target = this.list.after(event.key, this.active);
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
