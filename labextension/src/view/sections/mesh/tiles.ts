/** A large mesh: cells on a canvas, and the rings of cursor and copies on another canvas above it. */

import type { TileLayout } from '../../layout/tile_layout';
import type { Exchange } from '../../model/exchange';
import type { Scene } from '../../model/scene';
import { prepare, type Look } from '../../paint/look';
import { boxOf, paintTiles, type Unit } from '../../paint/tile_painter';
import { changeOf, elementsIn, type Dispatch } from '../parts/parts';

const h = elementsIn('mesh');

export class Tiles {
  private readonly base = h('canvas.tiles', { 'aria-hidden': 'true' });
  private readonly rings = h('canvas.rings', { 'aria-hidden': 'true' });
  readonly node = h('div.tile-area', { role: 'presentation' }, this.base, this.rings);
  private readonly baseChanged = changeOf();
  private readonly ringsChanged = changeOf();
  private readonly unitOf = new Map<string, number>();
  /** CSS pixels in a pixel of the theme. */
  private unit = 1;

  constructor(
    readonly layout: TileLayout,
    readonly units: readonly Unit[],
    dispatch: Dispatch,
  ) {
    units.forEach((unit, i) => {
      for (const key of unit.devices) this.unitOf.set(key, i);
    });
    this.rings.addEventListener('pointermove', event => {
      dispatch({ type: 'hover', device: this.deviceAt(event) });
    });
    this.rings.addEventListener('pointerleave', () => {
      dispatch({ type: 'hover', device: null });
    });
    this.rings.addEventListener('click', event => {
      const device = this.deviceAt(event);
      if (device !== null) dispatch({ type: 'pin', device });
    });
  }

  draw(scene: Scene, look: Look): void {
    const { layout, units } = this;
    this.unit = look.unit;
    const { directory, shares, exchange, fullness, state } = scene;
    if (this.baseChanged(directory, shares, fullness, look)) {
      paintTiles(this.base, layout, units, this.hosts(scene), scene, look);
    }
    if (this.ringsChanged(state.cursor, state.hover, state.pinned, shares, exchange, look)) {
      this.paintRings(scene, look);
    }
  }

  private hosts(scene: Scene): number[] {
    // A cell that is a host needs no line to the next host.
    if (this.units.some(unit => unit.devices.length > 1)) return [];
    const { devices, hostOf } = scene.directory;
    return this.units.map(({ devices: [key = ''] }) => {
      const process = devices.get(key)?.process_id;
      return process === undefined ? -1 : (hostOf.get(process) ?? -1);
    });
  }

  private paintRings(scene: Scene, look: Look): void {
    const g = prepare(this.rings, this.layout, look);
    if (!g) return;
    const { cursor, hover } = scene.state;
    const shown = hover ?? cursor;
    if (shown !== null && scene.exchange) this.paintPartners(g, scene.exchange, shown, look);
    const number = shown === null || scene.exchange ? undefined : scene.holding?.of.get(shown);
    g.strokeStyle = look.ink;
    if (number !== undefined) {
      g.lineWidth = 1;
      for (const key of scene.holding?.pieces[number]?.devices ?? []) this.ring(g, key, 0);
    }
    g.lineWidth = 2;
    if (hover !== null && hover !== cursor) this.ring(g, hover, 0.5);
    if (cursor !== null) this.ring(g, cursor, 1);
  }

  /** Draw rings around the devices that a device exchanges data with, and make all other devices pale. */
  private paintPartners(
    g: CanvasRenderingContext2D,
    exchange: Exchange,
    shown: string,
    look: Look,
  ): void {
    const { to, from } = exchange.partnersOf(shown);
    const taking = new Set([...to, ...from, shown].map(key => this.unitOf.get(key)));
    g.fillStyle = look.paper;
    g.globalAlpha = 0.72;
    g.beginPath();
    for (let i = 0; i < this.units.length; i++) {
      if (taking.has(i)) continue;
      const { x, y, size } = boxOf(this.layout, i);
      g.rect(x, y, size, size);
    }
    g.fill();
    g.globalAlpha = 1;
    g.strokeStyle = look.ink;
    g.lineWidth = this.layout.side < 9 ? 1 : 1.5;
    for (const key of new Set([...to, ...from])) this.ring(g, key, 0);
  }

  private ring(g: CanvasRenderingContext2D, key: string, outside: number): void {
    const unit = this.unitOf.get(key);
    if (unit === undefined) return;
    const { x, y, size } = boxOf(this.layout, unit);
    g.strokeRect(x - outside, y - outside, size + 2 * outside, size + 2 * outside);
  }

  /** Return the first device of the cell under the pointer. */
  private deviceAt(event: PointerEvent | MouseEvent): string | null {
    const area = this.rings.getBoundingClientRect();
    const px = (event.clientX - area.left) / this.unit;
    const py = (event.clientY - area.top) / this.unit;
    const { x, y, side } = this.layout;
    const found = x.findIndex((left, i) => {
      const top = y[i] ?? 0;
      return px >= left && px < left + side && py >= top && py < top + side;
    });
    return this.units[found]?.devices[0] ?? null;
  }
}
