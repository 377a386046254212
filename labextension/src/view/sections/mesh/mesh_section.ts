/** The mesh: its axes, and its devices as cards, as tiles or, if they are very many, as hosts. */

import { planeOf, type Block } from '../../layout/blocks';
import { layCards, type CardLayout } from '../../layout/card_layout';
import { layHosts, layTiles, SMALLEST_ON_TORUS, type TileLayout } from '../../layout/tile_layout';
import { addendText, describeDevice, unitOf } from '../../model/device_text';
import { chosenText, groupsText, partnersRows } from '../../model/exchange_text';
import { countText, dimensionTexts, meshText } from '../../model/format';
import { axisTypesText, wrapsText, type Grid } from '../../model/grid';
import type { Scene } from '../../model/scene';
import { shortenAll } from '../../model/shorten';
import type { Look } from '../../paint/theme';
import type { Unit } from '../../paint/tile_painter';
import { Cards } from './cards';
import { breakable, element, setAttributes, setShown, setText } from '../parts/element';
import { MOVES, moved } from './keyboard';
import { MeshTabs } from './mesh_tabs';
import { changeOf, type Dispatch, type Section } from '../parts/section';
import { Tiles } from './tiles';

/** Heights, in CSS pixels, that a mesh may take before it is drawn smaller. */
const CARDS_HEIGHT = 1000;
const TILES_HEIGHT = 470;
const TORUS_HEIGHT = 720;

type Arrangement =
  | {
      readonly kind: 'cards';
      readonly cards: Cards;
      readonly blocks: readonly Block[];
      readonly short: boolean;
    }
  | { readonly kind: 'tiles' | 'hosts'; readonly tiles: Tiles; readonly blocks: readonly Block[] };

export class MeshSection implements Section {
  private readonly tabs: MeshTabs;
  private readonly title = element('h4', 'nbdist-title');
  private readonly axes = element('p', 'nbdist-note');
  private readonly area: HTMLElement;
  readonly node: HTMLElement;
  private readonly layoutChanged = changeOf();
  private arrangement: Arrangement | null = null;
  private scene: Scene | null = null;

  constructor(
    private readonly dispatch: Dispatch,
    private readonly prefix: string,
    private readonly announce: (text: string) => void,
    /** Function that returns the cursor now, which may be ahead of what is drawn. */
    private readonly cursor: () => string | null,
  ) {
    const id = `${prefix}-mesh`;
    this.area = element('div', 'nbdist-mesh', { id, tabindex: 0, role: 'grid' });
    this.tabs = new MeshTabs(dispatch, id);
    this.node = element('div', 'nbdist-mesh-section', {});
    this.node.append(this.tabs.node, this.title, this.axes, this.area);
    this.area.addEventListener('keydown', event => {
      this.press(event);
    });
  }

  /** Whether a cell is a host and not a device. */
  get drawsHosts(): boolean {
    return this.arrangement?.kind === 'hosts';
  }

  draw(scene: Scene, look: Look): void {
    this.scene = scene;
    this.tabs.draw(scene);
    this.drawTitle(scene);
    const width = Math.floor(this.area.clientWidth);
    const [part, whole] = this.slicesLengths(scene);
    const inputs = [
      scene.grid,
      width,
      part,
      whole,
      look,
      scene.grid.devices.length && this.hostKey(scene),
    ];
    if (this.layoutChanged(...inputs) && width > 0) this.arrange(scene, look, width, part, whole);
    const { arrangement } = this;
    if (arrangement?.kind === 'cards') arrangement.cards.draw(scene, look);
    else arrangement?.tiles.draw(scene, look);
    this.drawAxes(scene);
    this.drawFocus(scene);
  }

  /** Return a value that changes with the hosts if cells are hosts: only then does the layout depend on them. */
  private hostKey(scene: Scene): unknown {
    return this.arrangement?.kind === 'hosts' ? scene.directory.hosts.length : null;
  }

  private drawTitle(scene: Scene): void {
    const { grid, array } = scene;
    const type = grid.mesh ? axisTypesText(grid.mesh) : '';
    const label = grid.mesh ? meshText(grid.mesh) : grid.devices.length ? grid.label : 'none yet';
    const parts: [string, string][] = [];
    // If there are tabs, they say which mesh is shown.
    if (scene.grids.length === 1) parts.push([grid.mesh ? 'mesh' : 'devices', label]);
    if (type && type !== 'auto') parts.push(['axis types', type]);
    if (scene.exchange) parts.push(['showing', chosenText(scene)]);
    else if (array) parts.push(['showing', shortened(array.path)]);
    const key = JSON.stringify(parts);
    setShown(this.title, parts.length > 0);
    if (this.title.dataset.key === key) return;
    this.title.dataset.key = key;
    this.title.replaceChildren(
      ...parts.map(([word, value]) =>
        element('span', '', {}, `${word} `, element('em', '', {}, ...breakable(value))),
      ),
    );
  }

  /** Write which axis runs down and which runs across, if the labels do not say it. */
  private drawAxes(scene: Scene): void {
    const { arrangement } = this;
    const parts: string[] = [];
    const { down, across } = planeOf(scene.grid.axes);
    const runs = down === null ? `${across} runs across` : `${down} runs down, ${across} across`;
    if (arrangement?.kind === 'hosts') {
      const count = countText(scene.grid.devices.length, 'device');
      parts.push(
        `one cell a host, ${count} on ${countText(arrangement.tiles.units.length, 'host')}`,
      );
    } else if (arrangement?.kind === 'tiles') {
      parts.push(runs, ...[arrangement.tiles.layout.folding].filter(Boolean));
    } else if (arrangement?.kind === 'cards' && arrangement.short) parts.push(runs);
    if (scene.grid.torus) {
      const drawn = arrangement?.kind === 'tiles' && arrangement.tiles.layout.wraps.length > 0;
      parts.push(wrapsText(scene.grid.torus) + (drawn ? ', by the lines at the edges' : ''));
    }
    if (scene.exchange)
      parts.push(groupsText(scene) || 'several groups: choose one collective to see them');
    setText(this.axes, parts.join('; '));
    setShown(this.axes, parts.length > 0);
  }

  private drawFocus(scene: Scene): void {
    const { arrangement } = this;
    const cells = arrangement?.kind === 'cards';
    const active = cells ? arrangement.cards.idOf(scene.state.cursor) : null;
    setAttributes(this.area, {
      role: cells ? 'grid' : 'application',
      'aria-activedescendant': active,
      'aria-label': `Devices of ${scene.grid.label}. Arrow keys move, Enter keeps a device.`,
      'data-form': arrangement?.kind ?? 'none',
    });
  }

  /** Return the lengths, in characters, of the longest part that must not be broken and of the longest slices. */
  private slicesLengths(scene: Scene): readonly [part: number, whole: number] {
    let [part, whole] = [9, 9];
    for (const piece of scene.holding?.pieces.slice(0, 512) ?? []) {
      const texts = dimensionTexts(piece.slices);
      for (const text of texts) part = Math.max(part, text.length + 2);
      const addend = addendText(piece, scene.holding?.addends ?? 1).length;
      [part, whole] = [Math.max(part, addend), Math.max(whole, texts.join(', ').length + 2)];
    }
    return [part, whole];
  }

  private arrange(scene: Scene, look: Look, width: number, part: number, whole: number): void {
    const room = { width, height: CARDS_HEIGHT, character: look.character };
    const { character } = look;
    const extra = (scene.holding?.addends ?? 1) > 1 || scene.holding?.own ? 1 : 0;
    const cards = layCards(scene.grid, room, {
      width: Math.ceil(part * character + 22),
      height: cardWidth => {
        const perLine = Math.max(part, Math.floor((cardWidth - 22) / character));
        // A line that breaks between dimensions is rarely full.
        const lines = whole <= perLine ? 1 : Math.ceil((whole * 1.15) / perLine);
        return 35 + 15.4 * (lines + extra);
      },
    });
    this.arrangement = cards
      ? this.withCards(scene, cards)
      : this.withTiles(scene, { ...room, height: TILES_HEIGHT });
    const { arrangement } = this;
    const shown = arrangement.kind === 'cards' ? arrangement.cards.node : arrangement.tiles.node;
    this.area.replaceChildren(shown);
  }

  private withCards(scene: Scene, layout: CardLayout): Arrangement {
    const cards = new Cards(layout, scene, this.prefix, this.dispatch);
    return { kind: 'cards', cards, blocks: layout.blocks, short: layout.short };
  }

  private withTiles(
    scene: Scene,
    room: { width: number; height: number; character: number },
  ): Arrangement {
    // On a torus of devices, neighbouring cells are linked chips. So cells become smaller there
    // before they give way to hosts.
    const layout = scene.grid.torus
      ? layTiles(scene.grid, { ...room, height: TORUS_HEIGHT }, SMALLEST_ON_TORUS)
      : layTiles(scene.grid, room);
    if (layout) {
      const units = scene.grid.devices.map(key => ({ name: key, devices: [key] }));
      return {
        kind: 'tiles',
        tiles: new Tiles(layout, units, this.dispatch),
        blocks: layout.blocks,
      };
    }
    const units = hostUnits(scene);
    const hosts = layHosts(hostGrid(units), room);
    return {
      kind: 'hosts',
      tiles: new Tiles(hosts, units, this.dispatch),
      blocks: foldedLike(hosts, units.length),
    };
  }

  private press(event: KeyboardEvent): void {
    const { scene, arrangement } = this;
    if (!scene || !arrangement || event.altKey || event.metaKey) return;
    const cursor = this.cursor();
    if (event.key === 'Enter' || event.key === ' ') {
      if (cursor !== null) this.dispatch({ type: 'pin', device: cursor });
    } else if (event.key === 'Escape') this.dispatch({ type: 'cursor', device: null });
    else if (MOVES.has(event.key)) this.move(scene, arrangement, event);
    else return;
    event.preventDefault();
  }

  private move(scene: Scene, arrangement: Arrangement, event: KeyboardEvent): void {
    const names =
      arrangement.kind === 'cards'
        ? scene.grid.devices.map(key => [key])
        : arrangement.tiles.units.map(unit => unit.devices);
    const cursor = this.cursor();
    const from = cursor === null ? -1 : names.findIndex(keys => keys.includes(cursor));
    const to = moved(arrangement.blocks, from < 0 ? null : from, event.key, event.ctrlKey);
    const device = to === null ? undefined : names[to]?.[0];
    if (device === undefined || device === cursor) return;
    this.dispatch({ type: 'cursor', device });
    const partners = partnersRows(scene, device).map(row => row.join(' '));
    const described = describeDevice(scene, scene.grid.devices.indexOf(device));
    this.announce([described, ...partners].join(', '));
  }
}

/** Shorten a path to fit in one line; the whole path stands beside the picture of the array. */
const shortened = (path: string): string => shortenAll([path], 38).get(path) ?? path;

/** Return the devices of a grid by host, with hosts in the order in which they first appear in the grid. */
function hostUnits(scene: Scene): readonly Unit[] {
  const hosts = new Map<string, string[]>();
  for (const key of scene.grid.devices) {
    const name = unitOf(scene, key);
    const devices = hosts.get(name);
    if (devices) devices.push(key);
    else hosts.set(name, [key]);
  }
  return [...hosts].map(([name, devices]) => ({ name, devices }));
}

const hostGrid = (units: readonly Unit[]): Grid => ({
  id: 'hosts',
  label: 'hosts',
  axes: [{ name: 'host', size: units.length }],
  devices: units.map(unit => unit.name),
  mesh: null,
  torus: null,
});

/** Return the hosts as one block with the lines they are folded into, so that the arrow keys follow the eye. */
function foldedLike(layout: TileLayout, count: number): readonly Block[] {
  const perLine = layout.y.findIndex(y => y !== layout.y[0]);
  const columns = perLine < 0 ? count : perLine;
  const rows = Math.ceil(count / columns);
  const cells = Array.from({ length: rows * columns }, (_, i) => (i < count ? i : -1));
  return [{ label: '', rows, columns, cells, rowLabels: [], columnLabels: [] }];
}
