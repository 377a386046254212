/** The searchable list of named arrays. */

import { arrayRow, textsOf, type ArrayTexts } from './array_row';
import { element, setAttributes, setShown, setText } from './element';
import { findArrays } from './find';
import { countText } from './format';
import { listForm, type ListForm } from './list_form';
import { rowAfter } from './list_keys';
import { remember } from './memo';
import type { Scene } from './scene';
import { changeOf, type Dispatch, type Section } from './section';
import { shortenAll } from './shorten';
import type { Array as NamedArray, Mesh } from './snapshot';
import { pickedArray } from './state';
import type { Look } from './theme';
import { VirtualList } from './virtual_list';

const HEADINGS = ['array', 'type', 'spec', 'device', 'copies'];

/** What all rows of one drawing have in common. */
interface RowContext {
  readonly textOf: ReadonlyMap<NamedArray, ArrayTexts | undefined>;
  readonly names: ReadonlyMap<string, string>;
  readonly form: ListForm['kind'];
}

export class ArrayList implements Section {
  private readonly input: HTMLInputElement;
  private readonly heading = element('div', 'nbdist-array nbdist-array-head', {
    'aria-hidden': 'true',
  });
  private readonly box: HTMLElement;
  private readonly none = element('p', 'nbdist-none nbdist-soft');
  readonly node: HTMLElement;
  private readonly list: VirtualList;
  private readonly changed = changeOf();
  private readonly found = remember(findArrays);
  private readonly texts = remember(
    (arrays: readonly NamedArray[], meshes: ReadonlyMap<string, Mesh>) =>
      arrays.map(array => textsOf(array, meshes)),
  );
  private readonly names = remember((arrays: readonly NamedArray[], length: number) =>
    shortenAll(
      arrays.map(array => array.path),
      length,
    ),
  );
  private readonly form = remember(
    (
      arrays: readonly NamedArray[],
      texts: readonly ArrayTexts[],
      width: number,
      character: number,
    ) =>
      listForm(
        texts,
        arrays.map(array => array.path.length),
        width,
        character,
      ),
  );
  /** The arrays on show, and which of them the keyboard is at. */
  private shown: readonly NamedArray[] = [];
  private active = -1;
  private revealed: NamedArray | null = null;
  private scene: Scene | null = null;
  private look: Look | null = null;

  constructor(
    private readonly dispatch: Dispatch,
    private readonly prefix: string,
    private readonly announce: (text: string) => void,
  ) {
    const listId = `${prefix}-arrays`;
    const search = { type: 'search', 'aria-label': 'Find an array', 'aria-controls': listId };
    this.input = element('input', 'nbdist-find', { ...search, spellcheck: 'false' });
    this.box = element('div', 'nbdist-arrays', {
      role: 'listbox',
      id: listId,
      tabindex: 0,
      'aria-label': 'Arrays',
    });
    this.heading.append(...HEADINGS.map(text => element('span', '', {}, text)));
    this.node = element('section', 'nbdist-list', { 'aria-label': 'Arrays' });
    this.node.append(
      element('div', 'nbdist-search', {}, this.input),
      this.heading,
      this.box,
      this.none,
    );
    this.list = new VirtualList(this.box);
    this.listen();
  }

  /** Moves the keyboard to the search. */
  focusSearch(): void {
    this.input.focus();
    this.input.select();
  }

  draw(scene: Scene, look: Look): void {
    [this.scene, this.look] = [scene, look];
    const { arrays } = scene.snapshot;
    this.shown = this.found(arrays, scene.state.query);
    const width = Math.floor(this.node.clientWidth);
    const inputs = [this.shown, scene.meshes, scene.array, width, look.character, this.active];
    if (!this.changed(...inputs) || width === 0) return;
    setAttributes(this.input, { placeholder: `Find among ${countText(arrays.length, 'array')}` });
    this.drawRows(scene, width, look.character);
    const nothing = arrays.length ? 'No array matches.' : 'No named arrays yet.';
    setText(this.none, nothing);
    setShown(this.none, this.shown.length === 0);
    setShown(this.box, this.shown.length > 0);
  }

  private drawRows(scene: Scene, width: number, character: number): void {
    const { arrays } = scene.snapshot;
    // Columns and names are worked out for all arrays, so that a search does not move them.
    const texts = this.texts(arrays, scene.meshes);
    const form = this.form(arrays, texts, width, character);
    const names = this.names(arrays, form.nameLength);
    const textOf = new Map(arrays.map((array, i) => [array, texts[i]]));
    this.node.style.setProperty('--columns', form.columns);
    setAttributes(this.node, { 'data-form': form.kind });
    setShown(this.heading, form.kind === 'line' && this.shown.length > 0);
    const rows = this.shown;
    this.list.show({
      count: rows.length,
      height: i => this.heightOf(form, rows[i], textOf),
      render: i => this.row(scene, rows, i, { textOf, names, form: form.kind }),
    });
    // The column that holds the list needs room for some rows, see the style sheet.
    const column = this.node.closest<HTMLElement>('.nbdist-right');
    column?.style.setProperty('--rows', `${this.list.total}px`);
    if (this.revealed !== scene.array) {
      // A row that the person clicked is in sight already; one that the view chose may not be.
      this.revealed = scene.array;
      const row = this.revealed ? rows.indexOf(this.revealed) : -1;
      if (row >= 0) this.list.reveal(row);
    }
    const id = this.active >= 0 ? this.rowId(this.active) : null;
    setAttributes(this.box, { 'aria-activedescendant': id });
  }

  private heightOf(
    form: ListForm,
    array: NamedArray | undefined,
    textOf: ReadonlyMap<NamedArray, ArrayTexts | undefined>,
  ): number {
    const texts = array && textOf.get(array);
    return texts ? form.height(texts) : 0;
  }

  private row(
    scene: Scene,
    rows: readonly NamedArray[],
    i: number,
    { textOf, names, form }: RowContext,
  ): HTMLElement {
    const array = rows[i];
    const texts = array && textOf.get(array);
    if (!array || !texts) return element('div');
    const state = {
      id: this.rowId(i),
      name: names.get(array.path) ?? array.path,
      picked: array === scene.array,
      active: i === this.active,
      position: i,
      count: rows.length,
    };
    const row = arrayRow(array, texts, state, form);
    row.addEventListener('click', () => {
      this.active = i;
      this.choose(array);
    });
    return row;
  }

  private rowId(i: number): string {
    return `${this.prefix}-array-${i}`;
  }

  /** Picks an array, or lets go of the one that is picked. */
  private choose(array: NamedArray): void {
    const released = array === this.scene?.array;
    this.dispatch({ type: 'pick', array: released ? null : array });
    this.announce(released ? `${array.path} no longer shown` : `Showing ${array.path}`);
  }

  private listen(): void {
    this.input.addEventListener('input', () => {
      this.active = -1;
      this.box.scrollTop = 0;
      this.dispatch({ type: 'find', query: this.input.value });
      const arrays = findArrays(this.scene?.snapshot.arrays ?? [], this.input.value);
      this.announce(`${countText(arrays.length, 'array')} found`);
    });
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Escape' && this.input.value) {
        this.input.value = '';
        this.dispatch({ type: 'find', query: '' });
      } else if (event.key === 'ArrowDown') {
        this.box.focus();
        this.moveTo(0);
      } else return;
      event.preventDefault();
    });
    this.box.addEventListener('keydown', event => {
      this.press(event);
    });
  }

  private press(event: KeyboardEvent): void {
    const array = this.shown[this.active];
    const at = this.active < 0 ? this.pickedRow() : this.active;
    const target = rowAfter(event.key, at, this.shown.length, this.box.clientHeight);
    if (target !== null) this.moveTo(target);
    else if ((event.key === 'Enter' || event.key === ' ') && array) this.choose(array);
    else return;
    event.preventDefault();
  }

  private pickedRow(): number {
    const picked = this.scene && pickedArray(this.scene.state.pick, this.shown);
    return picked ? this.shown.indexOf(picked) : -1;
  }

  private moveTo(row: number): void {
    this.active = Math.max(0, Math.min(this.shown.length - 1, row));
    if (this.scene && this.look) this.draw(this.scene, this.look);
    this.list.reveal(this.active);
  }
}
