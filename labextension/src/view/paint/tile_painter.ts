/** Drawing of many cells on a canvas, with one path for each colour. */

import { gapOf, type TileLayout } from '../layout/tile_layout';
import { isLost, type Scene } from '../model/scene';
import { prepare, type Look } from './look';
import { fillOf } from './piece_style';

/** The subject of one cell: a device, or all devices of a host. */
export interface Unit {
  readonly name: string;
  readonly devices: readonly string[];
}

/** Corners and sizes of rectangles, four numbers each. */
type Rectangles = number[];

/** Least side of a cell, in pixels, in which a number can be read. */
const LABELLED = 14;
/** Least side of a cell that has a bar, which would hide a smaller cell. */
const BARRED = 4;
/** Most different pieces of a host that are drawn as stripes of its cell. */
const MOST_STRIPES = 4;

const noLayers = () => ({
  fills: new Map<string, Rectangles>(),
  empty: [] as Rectangles,
  lost: [] as Rectangles,
  mixed: [] as Rectangles,
  tracks: [] as Rectangles,
  bars: [] as Rectangles,
});

type Layers = ReturnType<typeof noLayers>;

function push<Key>(map: Map<Key, Rectangles>, key: Key, ...rectangle: Rectangles): void {
  const list = map.get(key);
  if (list) list.push(...rectangle);
  else map.set(key, rectangle);
}

/** Return the shards that the devices of a unit hold, sorted and each once; -1 for no piece. */
function piecesOf(scene: Scene, unit: Unit): number[] {
  const numbers = new Set(unit.devices.map(key => scene.shares?.of.get(key) ?? -1));
  return [...numbers].sort((a, b) => a - b);
}

/** Return the mean fullness of a unit's devices; null if none reports it. */
function fullnessOf(scene: Scene, unit: Unit): number | null {
  let [sum, count] = [0, 0];
  for (const key of unit.devices) {
    const full = scene.fullness.of.get(key);
    if (full !== undefined) [sum, count] = [sum + full, count + 1];
  }
  return count ? sum / count : null;
}

/** Add the cell of one unit to the layers. */
function addUnit(layers: Layers, scene: Scene, look: Look, unit: Unit, at: Box): void {
  const { x, y, size } = at;
  if (unit.devices.every(key => isLost(scene, key))) {
    layers.lost.push(x, y, size, size);
    return;
  }
  const numbers = piecesOf(scene, unit);
  const count = scene.shares?.groups.length ?? 0;
  if (numbers.length > MOST_STRIPES || size < numbers.length * 1.5)
    layers.mixed.push(x, y, size, size);
  else {
    const width = size / numbers.length;
    numbers.forEach((number, i) => {
      const box = [x + i * width, y, width, size] as const;
      if (number < 0) layers.empty.push(...box);
      else {
        push(layers.fills, fillOf(number, count, look.theme), ...box);
      }
    });
  }
  const full = size < BARRED ? null : fullnessOf(scene, unit);
  if (full === null) return;
  const height = size >= 24 ? 4 : size >= 16 ? 3 : size >= 9 ? 2 : 1;
  layers.tracks.push(x, y + size - height, size, height);
  layers.bars.push(x, y + size - height, size * full, height);
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly size: number;
}

/** Return the square of cell `i`, without the gap to the next cell. */
export function boxOf(layout: TileLayout, i: number): Box {
  const size = layout.side - gapOf(layout.side);
  return { x: layout.x[i] ?? 0, y: layout.y[i] ?? 0, size };
}

function fillAll(g: CanvasRenderingContext2D, rectangles: Rectangles): void {
  g.beginPath();
  for (let i = 0; i < rectangles.length; i += 4) {
    g.rect(
      rectangles[i] ?? 0,
      rectangles[i + 1] ?? 0,
      rectangles[i + 2] ?? 0,
      rectangles[i + 3] ?? 0,
    );
  }
  g.fill();
}

function paintLayers(g: CanvasRenderingContext2D, layers: Layers, look: Look): void {
  for (const [fill, rectangles] of layers.fills) {
    g.fillStyle = fill;
    fillAll(g, rectangles);
  }
  g.fillStyle = look.ink;
  for (const [opacity, rectangles] of [
    [0.09, layers.empty],
    [0.28, layers.mixed],
    [0.05, layers.lost],
    [0.14, layers.tracks],
    [0.55, layers.bars],
  ] as const) {
    g.globalAlpha = opacity;
    fillAll(g, rectangles);
  }
  g.globalAlpha = 0.5;
  g.strokeStyle = look.ink;
  strokeCrosses(g, layers.lost);
  g.globalAlpha = 1;
}

/** Draw a cross through every rectangle: lost devices are told from others without colour. */
function strokeCrosses(g: CanvasRenderingContext2D, rectangles: Rectangles): void {
  g.beginPath();
  for (let i = 0; i < rectangles.length; i += 4) {
    const [x = 0, y = 0, width = 0, height = 0] = rectangles.slice(i, i + 4);
    g.moveTo(x, y);
    g.lineTo(x + width, y + height);
    g.moveTo(x + width, y);
    g.lineTo(x, y + height);
  }
  g.stroke();
}

/** Draw the lines that `path` adds, thin and in the ink's colour. */
function strokeThin(g: CanvasRenderingContext2D, look: Look, opacity: number, path: () => void) {
  g.beginPath();
  path();
  g.strokeStyle = look.ink;
  g.globalAlpha = opacity;
  g.lineWidth = 1;
  g.stroke();
  g.globalAlpha = 1;
}

/** Draw a line between neighbouring cells of different hosts. */
function paintBoundaries(
  g: CanvasRenderingContext2D,
  layout: TileLayout,
  hosts: readonly number[],
  look: Look,
): void {
  const at = new Map<string, number>();
  layout.x.forEach((x, i) => at.set(`${x} ${layout.y[i] ?? 0}`, i));
  const { side } = layout;
  const gap = side - boxOf(layout, 0).size;
  strokeThin(g, look, 0.55, () => {
    layout.x.forEach((x, i) => {
      const y = layout.y[i] ?? 0;
      const right = at.get(`${x + side} ${y}`);
      const below = at.get(`${x} ${y + side}`);
      const [edgeX, edgeY] = [x + side - gap / 2, y + side - gap / 2];
      if (right !== undefined && hosts[right] !== hosts[i]) {
        g.moveTo(edgeX, y - gap / 2);
        g.lineTo(edgeX, edgeY);
      }
      if (below !== undefined && hosts[below] !== hosts[i]) {
        g.moveTo(x - gap / 2, edgeY);
        g.lineTo(edgeX, edgeY);
      }
    });
  });
}

function paintTexts(
  g: CanvasRenderingContext2D,
  layout: TileLayout,
  units: readonly Unit[],
  scene: Scene,
  look: Look,
): void {
  g.fillStyle = look.ink;
  g.textBaseline = 'middle';
  g.font = `11px ${look.mono}`;
  g.globalAlpha = 0.72;
  for (const { text, x, y, align } of layout.labels) {
    g.textAlign = align;
    g.fillText(text, x, y);
  }
  g.globalAlpha = 1;
  if (layout.side < LABELLED) return;
  g.textAlign = 'center';
  g.font = `9px ${look.mono}`;
  const count = scene.shares?.groups.length ?? 0;
  const { numbers } = scene.directory;
  units.forEach((unit, i) => {
    const key = unit.devices[0];
    if (key === undefined || unit.devices.length > 1) return;
    const number = isLost(scene, key) ? -1 : (scene.shares?.of.get(key) ?? -1);
    // Without an array in the cells, the number is the device's among those of its process.
    const text = String(count ? (number < 0 ? '' : number) : (numbers.get(key) ?? ''));
    const { x, y, size } = boxOf(layout, i);
    if (text.length * look.character * (9 / 11) > size) return;
    g.fillText(text, x + size / 2, y + size / 2 - 1);
  });
}

/** Draw the links from the last chip of a dimension to the first, as far as they leave a block. */
function paintWraps(g: CanvasRenderingContext2D, { wraps }: TileLayout, look: Look): void {
  strokeThin(g, look, 0.6, () => {
    for (const { x, y, dx, dy } of wraps) {
      g.moveTo(x, y);
      g.lineTo(x + dx, y + dy);
    }
  });
}

/** Draw every cell. `hosts[i]` is the host of cell i, for the lines between hosts. */
export function paintTiles(
  canvas: HTMLCanvasElement,
  layout: TileLayout,
  units: readonly Unit[],
  hosts: readonly number[],
  scene: Scene,
  look: Look,
): void {
  const g = prepare(canvas, layout, look);
  if (!g) return;
  const layers = noLayers();
  units.forEach((unit, i) => {
    addUnit(layers, scene, look, unit, boxOf(layout, i));
  });
  paintLayers(g, layers, look);
  if (units.length > 1 && layout.side >= 6 && hosts.length) paintBoundaries(g, layout, hosts, look);
  paintWraps(g, layout, look);
  paintTexts(g, layout, units, scene, look);
}
