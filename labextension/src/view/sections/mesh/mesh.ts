/** The mesh: its axes, its devices as cards, as tiles or, if they are very many, as hosts, and what the signs mean. */

import { MOVES, moved, planeOf, type Block } from '../../layout/blocks';
import { layCards } from '../../layout/card_layout';
import {
  layHosts,
  layTiles,
  SMALLEST_ON_TORUS,
  type Room,
  type TileLayout,
} from '../../layout/tile_layout';
import {
  addendText,
  chosenText,
  describeDevice,
  groupsText,
  partnersRows,
  unitOf,
} from '../../model/device_text';
import { countText, dimensionTexts, meshText } from '../../model/format';
import { axisTypesText, wrapsText, type Grid } from '../../model/grid';
import { grouped } from '../../model/lists';
import type { Scene } from '../../model/scene';
import type { Look } from '../../paint/look';
import type { Unit } from '../../paint/tile_painter';
import {
  breakable,
  changeOf,
  elementsIn,
  setAttributes,
  setChosen,
  setShown,
  setText,
  tab,
  type Announce,
  type Dispatch,
  type Section,
} from '../parts/parts';
import { Cards } from './cards';
import { Tiles } from './tiles';

const h = elementsIn('mesh');

const MOST_TABS = 5;
/** Heights, in pixels of the theme, that a mesh may take before it is drawn smaller. */
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
  private readonly title = h('h4+title+wrap');
  private readonly axes = h('p+note');
  private readonly area: HTMLElement;
  readonly node: HTMLElement;
  private readonly layoutChanged = changeOf();
  private arrangement: Arrangement | null = null;
  private scene: Scene | null = null;

  constructor(
    private readonly dispatch: Dispatch,
    private readonly prefix: string,
    private readonly announce: Announce,
    /** Function that returns the cursor now, which may be ahead of what is drawn. */
    private readonly cursor: () => string | null,
  ) {
    const id = `${prefix}-mesh`;
    this.area = h('div.mesh', { id, tabindex: 0, role: 'grid' });
    this.tabs = new MeshTabs(dispatch, id);
    this.node = h('div', this.tabs.node, this.title, this.axes, this.area);
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
    const width = Math.floor(this.area.clientWidth / look.unit);
    const [part, whole] = slicesLengths(scene);
    // Only if cells are hosts does the layout depend on them.
    const hosts = this.drawsHosts ? scene.directory.hosts.length : null;
    const changed = this.layoutChanged(scene.grid, width, part, whole, look, hosts);
    if (changed && width > 0) this.arrange(scene, look, width, part, whole);
    const { arrangement } = this;
    if (arrangement?.kind === 'cards') arrangement.cards.draw(scene, look);
    else arrangement?.tiles.draw(scene, look);
    this.drawAxes(scene);
    this.drawFocus(scene);
  }

  private drawTitle(scene: Scene): void {
    const { grid, array } = scene;
    const type = grid.mesh ? axisTypesText(grid.mesh) : '';
    const none = grid.devices.length ? grid.label : 'No devices yet';
    const label = grid.mesh ? meshText(grid.mesh) : none;
    const parts: [string, string][] = [];
    // If there are tabs, they say which mesh is shown.
    if (scene.grids.length === 1) parts.push([grid.mesh ? 'mesh' : '', label]);
    if (type && type !== 'auto') parts.push(['axis types', type]);
    if (scene.exchange) parts.push(['showing', chosenText(scene)]);
    else if (array) parts.push(['showing', array.path]);
    const key = JSON.stringify(parts);
    setShown(this.title, parts.length > 0);
    if (this.title.dataset.key === key) return;
    this.title.dataset.key = key;
    const spans = parts.map(([word, value]) => {
      return h('span', word && `${word} `, h(word ? 'em' : 'b', breakable(value)));
    });
    this.title.replaceChildren(...spans);
  }

  /** Write which axis runs down and which runs across, if the labels do not say it. */
  private drawAxes(scene: Scene): void {
    const { arrangement } = this;
    const parts: string[] = [];
    const { down, across } = planeOf(scene.grid.axes);
    const runs = down === null ? `columns: ${across}` : `rows: ${down}, columns: ${across}`;
    if (arrangement?.kind === 'hosts') {
      const devices = countText(scene.grid.devices.length, 'device');
      const hosts = countText(arrangement.tiles.units.length, 'host');
      parts.push(`one cell a host, ${devices} on ${hosts}`);
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
      'aria-label': `Devices of ${scene.grid.label}. Arrow keys move, Enter pins a device.`,
      'data-form': arrangement?.kind ?? 'none',
    });
  }

  private arrange(scene: Scene, look: Look, width: number, part: number, whole: number): void {
    const { character } = look;
    const room = { width, height: CARDS_HEIGHT, character };
    const extra = (scene.holding?.addends ?? 1) > 1 || scene.holding?.own ? 1 : 0;
    const layout = layCards(scene.grid, room, {
      width: Math.ceil(part * character + 22),
      height: cardWidth => {
        const perLine = Math.max(part, Math.floor((cardWidth - 22) / character));
        // A line that breaks between dimensions is rarely full.
        const lines = whole <= perLine ? 1 : Math.ceil((whole * 1.15) / perLine);
        return 35 + 15.4 * (lines + extra);
      },
    });
    if (layout) {
      const { blocks, short } = layout;
      const cards = new Cards(layout, scene, this.prefix, this.dispatch);
      this.arrangement = { kind: 'cards', cards, blocks, short };
      this.area.replaceChildren(cards.node);
    } else {
      const arrangement = this.withTiles(scene, { ...room, height: TILES_HEIGHT });
      this.arrangement = arrangement;
      this.area.replaceChildren(arrangement.tiles.node);
    }
  }

  private withTiles(scene: Scene, room: Room): Arrangement & { readonly tiles: Tiles } {
    // On a torus of devices, neighbouring cells are linked chips. So cells become smaller there
    // before they give way to hosts.
    const layout = scene.grid.torus
      ? layTiles(scene.grid, { ...room, height: TORUS_HEIGHT }, SMALLEST_ON_TORUS)
      : layTiles(scene.grid, room);
    if (layout) {
      const units = scene.grid.devices.map(key => ({ name: key, devices: [key] }));
      const tiles = new Tiles(layout, units, this.dispatch);
      return { kind: 'tiles', tiles, blocks: layout.blocks };
    }
    const units = hostUnits(scene);
    const hosts = layHosts(hostGrid(units), room);
    const tiles = new Tiles(hosts, units, this.dispatch);
    return { kind: 'hosts', tiles, blocks: foldedLike(hosts, units.length) };
  }

  private press(event: KeyboardEvent): void {
    const { scene, arrangement } = this;
    if (!scene || !arrangement || event.altKey || event.metaKey) return;
    const cursor = this.cursor();
    if (event.key === 'Enter' || event.key === ' ') {
      if (cursor !== null) this.dispatch({ type: 'pin', device: cursor });
    } else if (MOVES.has(event.key)) this.move(scene, arrangement, event);
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

/** Return the devices of a grid by host, with hosts in the order in which they first appear in the grid. */
const hostUnits = (scene: Scene): readonly Unit[] =>
  [...grouped(scene.grid.devices, key => unitOf(scene, key))].map(([name, devices]) => {
    return { name, devices };
  });

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

/** Return the lengths, in characters, of the longest part that must not be broken and of the longest slices. */
function slicesLengths(scene: Scene): readonly [part: number, whole: number] {
  let [part, whole] = [9, 9];
  for (const piece of scene.holding?.pieces.slice(0, 512) ?? []) {
    const texts = dimensionTexts(piece.slices);
    for (const text of texts) part = Math.max(part, text.length + 2);
    const addend = addendText(piece, scene.holding?.addends ?? 1).length;
    [part, whole] = [Math.max(part, addend), Math.max(whole, texts.join(', ').length + 2)];
  }
  return [part, whole];
}

/** Choice among several meshes: tabs if they are few, else a list. */
class MeshTabs implements Section {
  readonly node = h('div');
  private readonly changed = changeOf();
  private ids: readonly string[] = [];
  private tabs: readonly HTMLButtonElement[] = [];

  constructor(
    private readonly dispatch: Dispatch,
    private readonly panelId: string,
  ) {}

  draw(scene: Scene): void {
    const { grids, grid } = scene;
    if (!this.changed(grids, grid.id)) return;
    setShown(this.node, grids.length > 1);
    // The buttons stay as long as the meshes are the same, so that a click or the focus is not lost.
    const labels = grids.map(({ id, label }) => `${id} ${label}`);
    if (labels.join('\n') !== this.ids.join('\n')) {
      this.ids = labels;
      this.build(grids);
    }
    this.tabs.forEach((shown, i) => {
      setChosen(shown, grids[i]?.id === grid.id);
    });
    const select = this.node.querySelector('select');
    if (select) select.value = grid.id;
  }

  private build(grids: readonly Grid[]): void {
    const choose = (id: string): void => {
      this.dispatch({ type: 'mesh', id });
    };
    this.tabs = [];
    if (grids.length > MOST_TABS) {
      const options = grids.map(({ id, label }) => h('option', { value: id }, label));
      const select = h('select+select', { 'aria-label': 'Mesh' }, options);
      select.addEventListener('change', () => {
        choose(select.value);
      });
      this.node.replaceChildren(select);
      return;
    }
    this.tabs = grids.map(({ id, label }) =>
      tab(label, this.panelId, () => {
        choose(id);
      }),
    );
    const attributes = { role: 'tablist', 'aria-label': 'Meshes' };
    this.node.replaceChildren(h('div+tabs', attributes, this.tabs));
  }
}
