/** The list of named arrays: the trees of their paths, or the results of a search. */

import { Listings, type Listing } from '../../layout/listing';
import { leavesOf } from '../../model/branches';
import { findArrays } from '../../model/find';
import { countText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Array as NamedArray } from '../../model/snapshot';
import { keyOfArray, type BranchRow, type ListRow, type Shown } from '../../model/tree_rows';
import type { Look } from '../../paint/theme';
import { arrayRow } from './array_row';
import { branchRow } from './branch_row';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { rowAfter } from './list_keys';
import { changeOf, type Dispatch, type Section } from '../parts/section';
import { turned } from './tree_keys';
import { VirtualList } from './virtual_list';

const HEADINGS = ['array', 'type', 'spec', 'device', 'copies'];

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
  private readonly listings = new Listings();
  /** The rows that are shown, and the key of the row the keyboard is at. */
  private listing: Listing | null = null;
  private active: string | null = null;
  private revealed: string | null = null;
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
      role: 'tree',
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

  /** Move the keyboard focus to the search. */
  focusSearch(): void {
    this.input.focus();
    this.input.select();
  }

  draw(scene: Scene, look: Look): void {
    [this.scene, this.look] = [scene, look];
    const { arrays, arrays_omitted: omitted } = scene.snapshot;
    const width = Math.floor(this.node.clientWidth);
    const { query } = scene.state;
    const { states } = this.listings.open;
    const drawn = [arrays, omitted, query, scene.meshes, scene.array, states, this.active];
    if (!this.changed(...drawn, width, look.character) || width === 0) return;
    const reveals = this.reveal(scene);
    const listing = this.listings.of(scene, width, look.character);
    this.listing = listing;
    setAttributes(this.input, { placeholder: `Find among ${countText(arrays.length, 'array')}` });
    this.drawRows(scene, listing);
    const at = reveals ? listing.rows.findIndex(row => isOf(row, scene.array)) : -1;
    // A row that the person clicked is in sight already; a row that the view chose may not be.
    if (at >= 0) this.list.reveal(at);
    const { rows } = listing;
    setText(this.none, arrays.length ? 'No array matches.' : 'No named arrays yet.');
    setShown(this.none, rows.length === 0);
    setShown(this.box, rows.length > 0);
  }

  /** Return whether an array is newly picked. Open the branches above it if it was asked for. */
  private reveal({ array, state, snapshot }: Scene): boolean {
    const key = array && keyOfArray(array);
    if (this.revealed === key) return false;
    this.revealed = key;
    const { pick, focus } = state;
    const asked = pick.kind === 'array' && (!pick.auto || focus !== null);
    if (!array) return false;
    const roots = this.listings.roots(snapshot.arrays);
    this.listings.open.settle(roots);
    if (asked) this.listings.open.reveal(roots, array);
    return true;
  }

  private drawRows(scene: Scene, listing: Listing): void {
    const { rows, form } = listing;
    this.node.style.setProperty('--columns', form.columns);
    setAttributes(this.node, { 'data-form': form.kind });
    setShown(this.heading, form.kind === 'line' && rows.length > 0);
    this.list.show({
      count: rows.length,
      height: i => heightOf(listing, rows[i]),
      render: i => this.row(scene, listing, i),
    });
    // The column that holds the list needs room for some rows: see `--rows` in the style sheets.
    const column = this.node.closest<HTMLElement>('.nbdist-right');
    column?.style.setProperty('--rows', `${this.list.total}px`);
    const at = this.activeRow();
    setAttributes(this.box, { 'aria-activedescendant': at >= 0 ? this.rowId(at) : null });
  }

  private row(scene: Scene, listing: Listing, i: number): HTMLElement {
    const row = listing.rows[i];
    const node = row && this.nodeOf(row, scene, listing, this.rowId(i));
    if (!node) return element('div');
    node.addEventListener('click', event => {
      this.active = row.key;
      const alike = event.target instanceof Element && event.target.closest('.nbdist-alike');
      if (alike && row.kind === 'branch') this.show(row, row.shown === 'each' ? 'open' : 'each');
      else this.act(row);
    });
    return node;
  }

  private nodeOf(row: ListRow, scene: Scene, listing: Listing, id: string): HTMLElement | null {
    const { form, nameOf } = listing;
    const active = row.key === this.active;
    const indent = form.indent(row.level, row.kind);
    const state = { id, name: nameOf(row), active, indent };
    if (row.kind === 'array') {
      const texts = listing.textsOf(row.array);
      const picked = row.array === scene.array;
      return texts ? arrayRow(row, texts, { ...state, picked }, form.kind) : null;
    }
    const closed = row.shown === 'closed' && scene.array !== null;
    const holds = closed && leavesOf(row.branch).includes(scene.array);
    const beside = isBeside(listing, row);
    return branchRow(row, listing.branchTexts(row), { ...state, holds, beside });
  }

  private rowId(i: number): string {
    return `${this.prefix}-array-${i}`;
  }

  private activeRow(): number {
    return this.listing?.rows.findIndex(row => row.key === this.active) ?? -1;
  }

  /** Do what a click or Enter means: pick an array or let go of it, open or close a branch. */
  private act(row: ListRow): void {
    if (row.kind === 'branch') this.show(row, row.shown === 'closed' ? 'open' : 'closed');
    else this.choose(row.array);
  }

  private show({ branch, key }: BranchRow, shown: Shown): void {
    this.active = key;
    this.listings.open.set(branch, shown);
    this.redraw();
    const at = this.activeRow();
    if (at >= 0) this.list.reveal(at);
  }

  /** Pick an array, or let go of it if it is picked. */
  private choose(array: NamedArray): void {
    const released = array === this.scene?.array;
    this.dispatch({ type: 'pick', array: released ? null : array });
    this.announce(released ? `${array.path} no longer shown` : `Showing ${array.path}`);
  }

  private listen(): void {
    this.input.addEventListener('input', () => {
      this.find(this.input.value);
      const arrays = findArrays(this.scene?.snapshot.arrays ?? [], this.input.value);
      this.announce(`${countText(arrays.length, 'array')} found`);
    });
    this.input.addEventListener('keydown', event => {
      if (event.key === 'Escape' && this.input.value) {
        this.input.value = '';
        this.find('');
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

  private find(query: string): void {
    [this.active, this.revealed] = [null, null];
    this.box.scrollTop = 0;
    this.dispatch({ type: 'find', query });
  }

  private press(event: KeyboardEvent): void {
    const rows = this.listing?.rows ?? [];
    const active = this.activeRow();
    const row = rows[active];
    const at = row ? active : rows.findIndex(one => isOf(one, this.scene?.array ?? null));
    const target = rowAfter(event.key, at, rows.length, this.box.clientHeight);
    const turn = turned(event.key, rows, at);
    if (target !== null) this.moveTo(target);
    else if (turn && 'to' in turn) this.moveTo(turn.to);
    else if (turn) this.show(turn.row, turn.shown);
    else if ((event.key === 'Enter' || event.key === ' ') && row) this.act(row);
    else return;
    event.preventDefault();
  }

  private moveTo(at: number): void {
    const rows = this.listing?.rows ?? [];
    const row = Math.max(0, Math.min(rows.length - 1, at));
    this.active = rows[row]?.key ?? null;
    this.redraw();
    this.list.reveal(row);
  }

  private redraw(): void {
    if (this.scene && this.look) this.draw(this.scene, this.look);
  }
}

const isOf = (row: ListRow, array: NamedArray | null): boolean =>
  row.kind === 'array' && row.array === array;

/** Return whether the text about a branch stands beside its name. */
function isBeside({ form, nameOf, branchTexts }: Listing, row: BranchRow): boolean {
  return form.beside(nameOf(row).length, branchTexts(row).about.length, row.level);
}

function heightOf(listing: Listing, row: ListRow | undefined): number {
  if (!row) return 0;
  const { form } = listing;
  if (row.kind === 'branch') return form.branchHeight(isBeside(listing, row));
  const texts = listing.textsOf(row.array);
  return texts ? form.height(texts, row.level) : 0;
}
