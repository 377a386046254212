/** A small mesh: one card for each device, which says what the device holds. */

import type { Block } from '../../layout/blocks';
import type { CardLayout } from '../../layout/card_layout';
import {
  addendText,
  describeDevice,
  heldBy,
  hostOf,
  memoryText,
  nameOf,
  processOf,
} from '../../model/device_text';
import { dimensionTexts } from '../../model/format';
import { shareText } from '../../model/exchange_text';
import { isLost, type Scene } from '../../model/scene';
import { pieceStyle, type PieceStyle } from '../../paint/piece_style';
import type { Look } from '../../paint/theme';
import { element, setAttributes, setShown, setText } from '../parts/element';
import type { Dispatch } from '../parts/section';

/** One device's card; `draw` sets its texts and its look. */
class Card {
  private readonly edge = element('i', 'nbdist-edge');
  private readonly name = element('b');
  private readonly long = element('small', 'nbdist-long');
  private readonly short = element('small', 'nbdist-short');
  private readonly holds = element('div', 'nbdist-holds');
  private readonly extra = element('div', 'nbdist-extra');
  private readonly bar = element('i');
  readonly node: HTMLElement;

  constructor(
    readonly position: number,
    readonly key: string,
    id: string,
    dispatch: Dispatch,
  ) {
    const title = element('div', 'nbdist-id', {}, this.name, ' ', this.long, this.short);
    const memory = element('div', 'nbdist-memory', {}, this.bar);
    const parts = [this.edge, title, this.holds, this.extra, memory];
    const attributes = { role: 'gridcell', id, 'data-device': key };
    this.node = element('div', 'nbdist-card', attributes, ...parts);
    this.node.addEventListener('click', () => {
      dispatch({ type: 'pin', device: key });
    });
  }

  draw(scene: Scene, look: Look): void {
    const host = hostOf(scene, this.key);
    const process = processOf(this.key);
    setText(this.name, nameOf(scene, this.key));
    setText(this.long, `process ${process}${host ? ` · ${host}` : ''}`);
    setText(this.short, `p${process}`);
    const number = scene.directory.hostOf.get(process) ?? 0;
    setAttributes(this.edge, { 'data-host': number % 6 });
    this.drawHeld(scene, look);
    const full = scene.fullness.of.get(this.key);
    this.bar.style.width = `${((full ?? 0) * 100).toFixed(1)}%`;
    setAttributes(this.node, {
      'aria-label': describeDevice(scene, this.position),
      'aria-selected': scene.state.pinned && scene.state.cursor === this.key ? 'true' : 'false',
    });
  }

  private drawHeld(scene: Scene, look: Look): void {
    if (scene.exchange) {
      this.drawExchange(scene, look);
      return;
    }
    const { kind, number, piece } = heldBy(scene, this.key);
    const holding = scene.holding;
    if (piece && holding) {
      const style = this.fill(number, holding.pieces.length, look);
      this.writeSlices(dimensionTexts(piece.slices));
      const own = holding.own ? 'its own' : '';
      setText(
        this.extra,
        [style.label && `piece ${style.label}`, addendText(piece, holding.addends), own]
          .filter(Boolean)
          .join(' '),
      );
    } else {
      this.empty();
      const plain = kind === 'lost' ? `lost with process ${processOf(this.key)}` : 'not here';
      setText(this.holds, kind === 'nothing picked' ? memoryText(scene, this.key) : plain);
      setText(this.extra, '');
    }
    setShown(this.extra, this.extra.textContent !== '');
    setAttributes(this.node, { 'data-holds': kind, 'data-piece': piece ? number : null });
  }

  /** Draw the device's group in the exchange of data, or the devices it sends to. */
  private drawExchange(scene: Scene, look: Look): void {
    const number = isLost(scene, this.key) ? undefined : scene.shares?.of.get(this.key);
    if (number === undefined) this.empty();
    else this.fill(number, scene.shares?.groups.length ?? 0, look);
    setText(this.holds, shareText(scene, this.key));
    setShown(this.extra, false);
    setAttributes(this.node, { 'data-holds': 'group', 'data-piece': number ?? null });
  }

  private fill(number: number, count: number, look: Look): PieceStyle {
    const style = pieceStyle(number, count, look.theme);
    const pattern = look.patterns.css(style.pattern);
    this.node.style.setProperty('--fill', style.fill);
    this.node.style.setProperty('--pattern', pattern.image);
    this.node.style.setProperty('--pattern-size', pattern.size);
    setAttributes(this.node, { 'data-pattern': style.pattern !== 'plain' });
    return style;
  }

  private empty(): void {
    for (const name of ['--fill', '--pattern']) this.node.style.removeProperty(name);
    setAttributes(this.node, { 'data-pattern': false });
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
    const spans = wanted.flatMap((text, i) => [i ? ' ' : '', element('span', '', {}, text)]);
    this.holds.replaceChildren(...spans);
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
    this.node = element('div', 'nbdist-cards', {}, ...blocks);
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
    const labelled = this.layout.labelWidth > 0;
    const node = element('div', 'nbdist-block', {
      role: 'rowgroup',
      'aria-label': block.label || null,
    });
    if (block.label) node.append(element('div', 'nbdist-block-label', {}, block.label));
    const columns = `${labelled ? `${this.layout.labelWidth}px ` : ''}repeat(${block.columns}, minmax(0, 1fr))`;
    if (block.columnLabels.length) {
      const labels = block.columnLabels.map(text =>
        element('div', 'nbdist-axis', { role: 'columnheader' }, text),
      );
      const corner = labelled ? [element('div', '', { role: 'presentation' })] : [];
      node.append(this.row(columns, [...corner, ...labels]));
    }
    for (let row = 0; row < block.rows; row++) {
      const label = block.rowLabels[row] ?? '';
      const cells: HTMLElement[] = labelled
        ? [element('div', 'nbdist-axis nbdist-axis-row', { role: 'rowheader' }, label)]
        : [];
      for (const position of block.cells.slice(row * block.columns, (row + 1) * block.columns)) {
        if (position < 0) continue;
        const key = scene.grid.devices[position] ?? '';
        const card = new Card(position, key, `${prefix}-${position}`, dispatch);
        this.cards.push(card);
        cells.push(card.node);
      }
      node.append(this.row(columns, cells));
    }
    return node;
  }

  private row(columns: string, children: readonly HTMLElement[]): HTMLElement {
    const row = element('div', 'nbdist-row', { role: 'row' }, ...children);
    row.style.gridTemplateColumns = columns;
    return row;
  }
}
