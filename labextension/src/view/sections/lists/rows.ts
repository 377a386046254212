/** A long list: elements for the rows in sight only, and the keys that move through it. */

import type { BranchRow, ListRow, Shown } from '../../model/tree_rows';
import { px, type Look } from '../../paint/look';
import { elementsIn, setAttributes, setShown } from '../parts/parts';

const h = elementsIn('lists');

/** Number of rows that are made above and below the rows in sight. */
const SPARE = 4;

/** The rows of a list; heights and widths are in pixels of the theme. */
export interface Rows {
  readonly count: number;
  /** The row that the keyboard is at; -1 for none. */
  readonly active: number;
  readonly form: { readonly kind: 'line' | 'stacked'; readonly columns: readonly number[] };
  height(i: number): number;
  render(i: number): HTMLElement;
}

const NO_ROWS: Rows = {
  count: 0,
  active: -1,
  form: { kind: 'line', columns: [] },
  height: () => 0,
  render: () => h('div'),
};

export class RowList {
  readonly heading: HTMLElement;
  private readonly spacer = h('div.spacer', { role: 'presentation' });
  readonly box: HTMLElement;
  private readonly made = new Map<number, HTMLElement>();
  private tops: number[] = [0];
  private rows = NO_ROWS;
  private unit = 1;

  /** `section` is the element that holds heading and box; ids of rows begin with `prefix`. */
  constructor(
    private readonly section: HTMLElement,
    private readonly prefix: string,
    headings: readonly string[],
    attributes: Readonly<Record<string, string>>,
  ) {
    const cells = headings.map(text => h('span', text));
    this.heading = h('div.row.head', { 'aria-hidden': 'true' }, cells);
    this.box = h('div.box', { tabindex: 0, ...attributes }, this.spacer);
    this.box.addEventListener('scroll', () => {
      this.fill();
    });
    new ResizeObserver(() => {
      this.fill();
    }).observe(this.box);
  }

  /** Return the id of a row, for `aria-activedescendant`. */
  idOf(i: number): string {
    return `${this.prefix}-${i}`;
  }

  /** Show `rows`. They are made anew, since their content may have changed. */
  show(rows: Rows, { unit }: Look): void {
    const { count, form, active } = rows;
    [this.rows, this.unit, this.tops] = [rows, unit, [0]];
    for (let i = 0; i < count; i++) this.tops.push((this.tops[i] ?? 0) + rows.height(i));
    const total = px(this.tops[count] ?? 0);
    const columns = ['minmax(0, 1fr)', ...form.columns.map(px)].join(' ');
    this.section.style.setProperty('--columns', columns);
    setAttributes(this.section, { 'data-form': form.kind });
    setShown(this.heading, form.kind === 'line' && count > 0);
    this.spacer.style.height = total;
    // The column that holds the list needs room for some rows: see `--rows` in the style sheet.
    const column = this.section.closest<HTMLElement>('[data-column]');
    column?.style.setProperty('--rows', total);
    setAttributes(this.box, { 'aria-activedescendant': active >= 0 ? this.idOf(active) : null });
    this.fill(true);
  }

  /** Scroll as little as needed to bring row i into sight. */
  reveal(i: number): void {
    const [top, bottom] = [this.tops[i] ?? 0, this.tops[i + 1] ?? 0].map(y => y * this.unit);
    const { scrollTop, clientHeight } = this.box;
    if (top !== undefined && top < scrollTop) this.box.scrollTop = top;
    else if (bottom !== undefined && bottom > scrollTop + clientHeight) {
      this.box.scrollTop = bottom - clientHeight;
    }
    this.fill();
  }

  /** Return the row that a key moves to from row `at`; null for other keys. */
  after(key: string, at: number): number | null {
    return rowAfter(key, at, this.rows.count, this.box.clientHeight / this.unit);
  }

  /** Make the rows in sight and remove the others; `anew` makes also those that are there. */
  private fill(anew = false): void {
    const { scrollTop, clientHeight } = this.box;
    const first = Math.max(0, this.rowAt(scrollTop) - SPARE);
    const end = this.rowAt(scrollTop + Math.max(clientHeight, 1));
    const last = Math.min(this.rows.count - 1, end + SPARE);
    for (const [i, node] of this.made) {
      if (!anew && i >= first && i <= last) continue;
      node.remove();
      this.made.delete(i);
    }
    for (let i = first; i <= last; i++) {
      if (this.made.has(i)) continue;
      const node = this.rows.render(i);
      node.style.height = px(this.rows.height(i));
      node.style.transform = `translateY(${px(this.tops[i] ?? 0)})`;
      this.made.set(i, node);
      this.spacer.append(node);
    }
  }

  /** Return the row at `y` CSS pixels from the top of the list. */
  private rowAt(y: number): number {
    let [low, high] = [0, Math.max(0, this.rows.count - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tops[middle] ?? 0) * this.unit <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Most pixels that a row takes, for moving by pages. */
const ROW = 32;

/**
 * Return the row that a key moves to from row `at` (-1 for none) of `count`; null for other keys.
 *
 * `height` is the height of the box in pixels of the theme.
 */
export function rowAfter(key: string, at: number, count: number, height: number): number | null {
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: count - 1,
  };
  const target = targets[key];
  return target === undefined ? null : Math.max(0, Math.min(count - 1, target));
}

/** The effect of a key: it moves to a row, or shows a branch in another form; null if there is none. */
export type Turn =
  { readonly to: number } | { readonly row: BranchRow; readonly shown: Shown } | null;

/**
 * Return the effect of Right or Left at row `at`; null if there is nothing to do.
 *
 * Right opens a branch. If the branch stands for several that are alike, the next Right shows each
 * of them. At last Right moves to the first row below. Left does the same backwards, and then moves
 * to the branch above.
 */
export function turned(key: string, rows: readonly ListRow[], at: number): Turn {
  const row = rows[at];
  if (!row) return null;
  if (key === 'ArrowRight') return row.kind === 'branch' ? further(row, at) : null;
  if (key !== 'ArrowLeft') return null;
  if (row.kind === 'branch' && row.shown !== 'closed') {
    return { row, shown: row.shown === 'each' ? 'open' : 'closed' };
  }
  return row.parent >= 0 ? { to: row.parent } : null;
}

function further(row: BranchRow, at: number): Turn {
  if (row.shown === 'closed') return { row, shown: 'open' };
  if (row.shown === 'open' && row.branch.alike.length) return { row, shown: 'each' };
  return { to: at + 1 };
}
