/** A small mesh: one card for each device, which says what the device holds. */

import type { Block } from '../../layout/blocks';
import type { CardLayout } from '../../layout/card_layout';
import {
  addendText,
  aboutDevice,
  heldBy,
  hostOf,
  idText,
  memoryText,
  nameOf,
  processOf,
  shareText,
  shortNameOf,
} from '../../model/device_text';
import { dimensionTexts } from '../../model/format';
import { isLost, type Scene } from '../../model/scene';
import { px, type Look } from '../../paint/look';
import { fillOf, isRamp } from '../../paint/piece_style';
import { elementsIn, setAttributes, setShown, setText, type Dispatch } from '../parts/parts';

const h = elementsIn('mesh');

/** One device's card; `draw` sets its texts and its look. */
class Card {
  private readonly edge = h('i+edge');
  private readonly long = h('b.long');
  private readonly short = h('b.short');
  private readonly host = h('small.host');
  private readonly holds = h('div.holds');
  private readonly extra = h('div.extra');
  private readonly bar = h('i');
  readonly node: HTMLElement;

  constructor(
    readonly position: number,
    readonly key: string,
    id: string,
    dispatch: Dispatch,
  ) {
    this.node = h(
      'div.card',
      { role: 'gridcell', id, 'data-device': key },
      ...[this.edge, h('div.id', this.long, this.short, ' ', this.host)],
      ...[this.holds, this.extra, h('div.memory', this.bar)],
    );
    this.node.addEventListener('click', () => {
      dispatch({ type: 'pin', device: key });
    });
  }

  draw(scene: Scene, look: Look): void {
    const host = hostOf(scene, this.key);
    const process = processOf(this.key);
    setText(this.long, nameOf(scene, this.key));
    setText(this.short, shortNameOf(scene, this.key));
    // The host is said once beside the processes where there is only one.
    setText(this.host, scene.directory.hosts.length > 1 ? host : '');
    const number = scene.directory.hostOf.get(process) ?? 0;
    setAttributes(this.edge, { 'data-host': number % 6 });
    this.drawHeld(scene, look);
    const full = scene.fullness.of.get(this.key);
    this.bar.style.width = `${((full ?? 0) * 100).toFixed(1)}%`;
    setAttributes(this.node, {
      'aria-description': aboutDevice(scene, this.position),
      title: idText(scene, this.key) || null,
      'aria-selected': String(scene.state.pinned && scene.state.cursor === this.key),
    });
  }

  private drawHeld(scene: Scene, look: Look): void {
    if (scene.exchange) {
      this.drawExchange(scene, look);
      return;
    }
    const { kind, number, piece } = heldBy(scene, this.key);
    const { holding } = scene;
    if (piece && holding) {
      const count = holding.pieces.length;
      this.fill(number, count, look);
      this.writeSlices(dimensionTexts(piece.slices));
      const [label, own] = [isRamp(count) && `shard ${number}`, holding.own && 'its own'];
      const extra = [label, addendText(piece, holding.addends), own];
      setText(this.extra, extra.filter(Boolean).join(' '));
    } else {
      this.empty();
      const plain = kind === 'lost' ? `lost with process ${processOf(this.key)}` : 'not here';
      setText(this.holds, kind === 'nothing picked' ? memoryText(scene, this.key) : plain);
      setText(this.extra, '');
    }
    setShown(this.extra, this.extra.textContent !== '');
    setAttributes(this.node, { 'data-holds': kind, 'data-shard': piece ? number : null });
  }

  /** Draw the device's group in the exchange of data, or the devices it sends to. */
  private drawExchange(scene: Scene, look: Look): void {
    const number = isLost(scene, this.key) ? undefined : scene.shares?.of.get(this.key);
    if (number === undefined) this.empty();
    else this.fill(number, scene.shares?.groups.length ?? 0, look);
    setText(this.holds, shareText(scene, this.key));
    setShown(this.extra, false);
    setAttributes(this.node, { 'data-holds': 'group', 'data-shard': number ?? null });
  }

  private fill(number: number, count: number, look: Look): void {
    this.node.style.setProperty('--fill', fillOf(number, count, look.theme));
  }

  private empty(): void {
    this.node.style.removeProperty('--fill');
  }

  /**
   * Write the slices with one element for each dimension, so that a narrow card breaks lines only
   * between them.
   */
  private writeSlices(dimensions: readonly string[]): void {
    const texts = dimensions.map((text, d) => {
      const [open, close] = [d === 0 ? '[' : '', d === dimensions.length - 1 ? ']' : ','];
      return `${open}${text}${close}`;
    });
    const wanted = dimensions.length ? texts : ['[]'];
    if (this.holds.textContent === wanted.join(' ')) return;
    this.holds.replaceChildren(...wanted.flatMap((text, i) => [i ? ' ' : '', h('span', text)]));
  }
}

/** All cards of a layout. A new layout needs a new `Cards`. */
export class Cards {
  readonly node: HTMLElement;
  private readonly cards: Card[] = [];

  constructor(
    private readonly layout: CardLayout,
    scene: Scene,
    prefix: string,
    dispatch: Dispatch,
  ) {
    const blocks = layout.blocks.map(block => this.block(block, scene, prefix, dispatch));
    this.node = h('div.cards', blocks);
    this.node.style.setProperty('--blocks', String(layout.blocksPerLine));
    this.node.addEventListener('pointerover', event => {
      dispatch({ type: 'hover', device: this.deviceAt(event) });
    });
    this.node.addEventListener('pointerleave', () => {
      dispatch({ type: 'hover', device: null });
    });
  }

  draw(scene: Scene, look: Look): void {
    const ring = scene.state.hover ?? scene.state.cursor;
    const { exchange } = scene;
    const same = ring === null || exchange ? undefined : scene.holding?.of.get(ring);
    const partners = ring === null ? null : exchange?.partnersOf(ring);
    const taking = partners ? new Set([...partners.to, ...partners.from]) : null;
    for (const card of this.cards) {
      card.draw(scene, look);
      setAttributes(card.node, {
        'data-cursor': scene.state.cursor === card.key,
        'data-same':
          taking?.has(card.key) ?? (same !== undefined && scene.holding?.of.get(card.key) === same),
        'data-apart': taking !== null && card.key !== ring && !taking.has(card.key),
      });
    }
  }

  /** Return the id of a device's cell, for `aria-activedescendant`. */
  idOf(key: string | null): string | null {
    return this.cards.find(card => card.key === key)?.node.id ?? null;
  }

  private deviceAt(event: Event): string | null {
    const target = event.target instanceof Element ? event.target.closest('[data-device]') : null;
    return target?.getAttribute('data-device') ?? null;
  }

  private block(block: Block, scene: Scene, prefix: string, dispatch: Dispatch): HTMLElement {
    const { label, rows, columns, rowLabels, columnLabels } = block;
    const { labelWidth } = this.layout;
    const node = h('div', { role: 'rowgroup', 'aria-label': label || null });
    if (label) node.append(h('div.block-label', label));
    const before = labelWidth > 0 ? `${px(labelWidth)} ` : '';
    const row = (cells: readonly HTMLElement[]): void => {
      const made = h('div.row', { role: 'row' }, cells);
      made.style.gridTemplateColumns = `${before}repeat(${columns}, minmax(0, 1fr))`;
      node.append(made);
    };
    if (columnLabels.length) {
      const labels = columnLabels.map(text => h('div.axis', { role: 'columnheader' }, text));
      row(labelWidth > 0 ? [h('div', { role: 'presentation' }), ...labels] : labels);
    }
    for (let at = 0; at < rows; at++) {
      const positions = block.cells.slice(at * columns, (at + 1) * columns).filter(p => p >= 0);
      const cards = positions.map(position => {
        const key = scene.grid.devices[position] ?? '';
        return new Card(position, key, `${prefix}-${position}`, dispatch);
      });
      this.cards.push(...cards);
      const nodes = cards.map(card => card.node);
      const heading = h('div.axis.axis-row', { role: 'rowheader' }, rowLabels[at] ?? '');
      row(labelWidth > 0 ? [heading, ...nodes] : nodes);
    }
    return node;
  }
}
