/** The list of named arrays: the trees of their paths, or the results of a search. */

import { Listings, type Listing } from '../../layout/list_layout';
import { findArrays, ORDERS, type Order } from '../../model/array_text';
import { leavesOf } from '../../model/branches';
import { countText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Array as NamedArray } from '../../model/snapshot';
import { keyOfArray, type BranchRow, type ListRow, type Shown } from '../../model/tree_rows';
import type { Look } from '../../paint/look';
import {
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  setText,
  type Announce,
  type Dispatch,
  type Section,
} from '../parts/parts';
import { arrayRow, branchRow } from './array_rows';
import { RowList, turned } from './rows';

const h = elementsIn('lists');

const HEADINGS = ['array', 'type', 'spec', 'per device', 'replicas'];

export class ArrayList implements Section {
  private readonly input: HTMLInputElement;
  private readonly sort: HTMLSelectElement;
  private readonly search: HTMLElement;
  private order: Order = 'tree';
  private readonly none = h('p.none+soft');
  readonly node = h('section.list.arrays', { 'aria-label': 'Arrays' });
  private readonly list: RowList;
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
    prefix: string,
    private readonly announce: Announce,
  ) {
    const id = `${prefix}-arrays`;
    const find = { type: 'search', 'aria-label': 'Find an array', 'aria-controls': id };
    this.input = h('input.find', { ...find, spellcheck: 'false' });
    const attributes = { role: 'tree', id, 'aria-label': 'Arrays' };
    this.list = new RowList(this.node, `${prefix}-array`, HEADINGS, attributes);
    const orders = Object.entries(ORDERS).map(([value, text]) => h('option', { value }, text));
    this.sort = h('select.sort', { 'aria-label': 'Order of the arrays' }, orders);
    this.search = h('div.search', this.input, this.sort);
    this.node.append(this.search, this.list.heading, this.list.box, this.none);
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
    const width = Math.floor(this.node.clientWidth / look.unit);
    const { query } = scene.state;
    const { states } = this.listings.open;
    const drawn = [arrays, omitted, query, this.order, scene.meshes, scene.array, states];
    if (!this.changed(...drawn, this.active, width, look) || width === 0) return;
    const reveals = this.reveal(scene);
    const listing = this.listings.of(scene, width, look.character, this.order);
    this.listing = listing;
    setShown(this.search, arrays.length > 0);
    setAttributes(this.input, { placeholder: `Find among ${countText(arrays.length, 'array')}` });
    this.drawRows(scene, listing, look);
    const at = reveals ? listing.rows.findIndex(row => isOf(row, scene.array)) : -1;
    // A row that the person clicked is in sight already; a row that the view chose may not be.
    if (at >= 0) this.list.reveal(at);
    const { rows } = listing;
    setText(this.none, arrays.length ? 'No array matches.' : 'No named arrays yet.');
    setShown(this.none, rows.length === 0);
    setShown(this.sort, arrays.length > 1);
    setShown(this.list.box, rows.length > 0);
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

  private drawRows(scene: Scene, listing: Listing, look: Look): void {
    const { rows, form } = listing;
    const rowsShown = {
      count: rows.length,
      active: this.activeRow(),
      form,
      height: (i: number) => heightOf(listing, rows[i]),
      render: (i: number) => this.row(scene, listing, i),
    };
    this.list.show(rowsShown, look);
  }

  private row(scene: Scene, listing: Listing, i: number): HTMLElement {
    const row = listing.rows[i];
    const node = row && this.nodeOf(row, scene, listing, this.list.idOf(i));
    if (!node) return h('div');
    node.addEventListener('click', () => {
      this.active = row.key;
      this.act(row);
    });
    return node;
  }

  private nodeOf(row: ListRow, scene: Scene, listing: Listing, id: string): HTMLElement | null {
    const { form } = listing;
    const active = row.key === this.active;
    const indent = form.indent(row.level, row.kind);
    const state = { id, active, indent };
    if (row.kind === 'array') {
      const texts = listing.textsOf(row.array);
      const picked = row.array === scene.array;
      return texts ? arrayRow(row, texts, { ...state, picked }, form.kind) : null;
    }
    const closed = row.shown === 'closed' && scene.array !== null;
    const holds = closed && leavesOf(row.branch).includes(scene.array);
    const beside = isBeside(listing, row);
    return branchRow(row, listing.branchTexts(row), { ...state, holds, beside }, shown => {
      this.show(row, shown);
    });
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
        this.list.box.focus();
        this.moveTo(0);
      } else return;
      event.preventDefault();
    });
    this.list.box.addEventListener('keydown', event => {
      this.press(event);
    });
    this.sort.addEventListener('change', () => {
      this.order = this.sort.value as Order;
      [this.active, this.list.box.scrollTop] = [null, 0];
      this.redraw();
    });
  }

  private find(query: string): void {
    [this.active, this.revealed] = [null, null];
    this.list.box.scrollTop = 0;
    this.dispatch({ type: 'find', query });
  }

  private press(event: KeyboardEvent): void {
    const rows = this.listing?.rows ?? [];
    const active = this.activeRow();
    const row = rows[active];
    const at = row ? active : rows.findIndex(one => isOf(one, this.scene?.array ?? null));
    const target = this.list.after(event.key, at);
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
function isBeside({ form, branchTexts }: Listing, row: BranchRow): boolean {
  return form.beside(row.name, branchTexts(row).aboutWidth, row.level);
}

function heightOf(listing: Listing, row: ListRow | undefined): number {
  if (!row) return 0;
  const { form } = listing;
  if (row.kind === 'branch') {
    return form.branchHeight(row.name, listing.branchTexts(row).aboutWidth, row.level);
  }
  const texts = listing.textsOf(row.array);
  return texts ? form.height(row.name, texts, row.level) : 0;
}
