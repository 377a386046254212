/** A long list that has elements only for the rows in sight. */

import { element } from '../parts/element';

/** Number of rows that are made above and below the rows in sight. */
const SPARE = 4;

export interface Rows {
  readonly count: number;
  /** Return the height of row i in CSS pixels. */
  height(i: number): number;
  /** Make row i, or update `node` to show it. */
  render(i: number, node: HTMLElement | null): HTMLElement;
}

export class VirtualList {
  private readonly spacer = element('div', 'nbdist-spacer', { role: 'presentation' });
  private readonly made = new Map<number, HTMLElement>();
  private tops: number[] = [0];
  private rows: Rows = { count: 0, height: () => 0, render: () => element('div') };

  constructor(readonly node: HTMLElement) {
    node.append(this.spacer);
    node.addEventListener('scroll', () => {
      this.fill();
    });
    new ResizeObserver(() => {
      this.fill();
    }).observe(node);
  }

  /** Show `rows`. Rows are made anew, since their content may have changed. */
  show(rows: Rows): void {
    this.rows = rows;
    this.tops = [0];
    for (let i = 0; i < rows.count; i++) this.tops.push((this.tops[i] ?? 0) + rows.height(i));
    this.spacer.style.height = `${this.total}px`;
    this.fill(true);
  }

  /** Height of all rows. */
  get total(): number {
    return this.tops[this.rows.count] ?? 0;
  }

  /** Scroll as little as needed to bring row i into sight. */
  reveal(i: number): void {
    const [top, bottom] = [this.tops[i] ?? 0, this.tops[i + 1] ?? 0];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (bottom > this.node.scrollTop + this.node.clientHeight) {
      this.node.scrollTop = bottom - this.node.clientHeight;
    }
    this.fill();
  }

  /** Make the rows in sight and remove the others; `anew` also updates the rows that stay. */
  fill(anew = false): void {
    const first = Math.max(0, this.rowAt(this.node.scrollTop) - SPARE);
    const end = this.node.scrollTop + Math.max(this.node.clientHeight, 1);
    const last = Math.min(this.rows.count - 1, this.rowAt(end) + SPARE);
    for (const [i, node] of this.made) {
      if (i >= first && i <= last) continue;
      node.remove();
      this.made.delete(i);
    }
    for (let i = first; i <= last; i++) {
      const known = this.made.get(i) ?? null;
      if (known && !anew) continue;
      const node = this.rows.render(i, known);
      node.style.height = `${this.rows.height(i)}px`;
      node.style.transform = `translateY(${this.tops[i] ?? 0}px)`;
      if (node === known) continue;
      known?.remove();
      this.made.set(i, node);
      this.spacer.append(node);
    }
  }

  /** Return the row at `y` pixels from the top of the list. */
  private rowAt(y: number): number {
    let [low, high] = [0, Math.max(0, this.rows.count - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.tops[middle] ?? 0) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
