import { describe, expect, it } from 'vitest';

import { blocksOf, placesOf } from '../src/view/layout/blocks';
import { layCards } from '../src/view/layout/card_layout';
import type { Grid } from '../src/view/model/grid';
import { moved } from '../src/view/layout/blocks';
import { layHosts, layTiles } from '../src/view/layout/tile_layout';

const grid = (...sizes: number[]): Grid => ({
  id: 'g',
  label: 'g',
  axes: sizes.map((size, i) => ({ name: `axis${i}`, size })),
  devices: Array.from({ length: sizes.reduce((a, b) => a * b, 1) }, (_, i) => `0:${i}`),
  mesh: null,
  torus: null,
});

const shapes = [
  [8],
  [256],
  [4, 2],
  [16, 16],
  [64, 4],
  [2, 128],
  [3, 2, 2],
  [2, 2, 2, 2, 2],
  [1, 4, 1],
];
const room = { width: 480, height: 460, character: 6.6 };

describe('tiles', () => {
  it.each([...shapes, [40, 4, 8]])('hold every device once, apart and inside, %j', (...sizes) => {
    const layout = layTiles(grid(...sizes), room);
    if (!layout) throw new Error('does not fit');
    const corners = new Set<string>();
    layout.x.forEach((x, i) => {
      const y = layout.y[i] ?? 0;
      corners.add(`${x} ${y}`);
      expect(x + layout.side).toBeLessThanOrEqual(room.width + 0.01);
      expect(y + layout.side).toBeLessThanOrEqual(layout.height + 0.01);
    });
    expect(corners.size).toBe(layout.x.length);
    expect(layout.height).toBeLessThanOrEqual(room.height);
  });

  it('give way to hosts where a device would be too small', () => {
    expect(layTiles(grid(2240, 4), room)).toBeNull();
    const layout = layHosts(grid(2240), room);
    expect(layout.side).toBeGreaterThanOrEqual(5);
    expect(layout.height).toBeLessThanOrEqual(room.height);
  });

  it('grow taller than the room rather than lose a host', () => {
    const layout = layHosts(grid(60000), { ...room, width: 100 });
    const corners = Array.from(layout.x, (x, i) => `${x} ${layout.y[i] ?? 0}`);
    expect(new Set(corners).size).toBe(60000);
  });
});

describe('cards', () => {
  const card = { width: 100, height: () => 52 };

  it('stand in rows and columns where they fit', () => {
    const layout = layCards(grid(4, 2), room, card);
    expect(layout?.blocks.map(b => [b.rows, b.columns])).toEqual([[4, 2]]);
  });

  it('are turned where that makes them fit', () => {
    const layout = layCards(grid(2, 4), { ...room, width: 296 }, card);
    expect(layout?.blocks[0]?.columns).toBe(2);
    expect(layout?.blocks[0]?.cells).toEqual([0, 4, 1, 5, 2, 6, 3, 7]);
  });

  it('of one axis are folded into lines of the same length', () => {
    const layout = layCards(grid(8), { ...room, width: 520 }, card);
    expect(layout?.blocks[0]?.columns).toBe(4);
    expect(layout?.blocks[0]?.rowLabels).toEqual(['axis0 0–3', 'axis0 4–7']);
  });

  it('give way to tiles where there are many', () => {
    expect(layCards(grid(16, 16), room, card)).toBeNull();
  });
});

describe('blocks', () => {
  it.each(shapes)('hold every position once, %j', (...sizes) => {
    for (const kind of ['plain', 'turned'] as const) {
      const shown = grid(...sizes);
      expect(placesOf(blocksOf(shown, { kind })).size).toBe(shown.devices.length);
    }
  });

  it('are named by the leading axes that have more than one place', () => {
    const labels = blocksOf(grid(2, 1, 2, 2, 2), { kind: 'plain' }).map(block => block.label);
    expect(labels).toEqual([
      'axis0 0 · axis2 0',
      'axis0 0 · axis2 1',
      'axis0 1 · axis2 0',
      'axis0 1 · axis2 1',
    ]);
  });
});

describe('moving with the keyboard', () => {
  const blocks = blocksOf(grid(2, 3, 4), { kind: 'plain' });

  it.each<[number | null, string, number]>([
    [null, 'ArrowRight', 0],
    [5, 'ArrowRight', 6],
    [5, 'ArrowLeft', 4],
    [5, 'ArrowDown', 9],
    [5, 'ArrowUp', 1],
    [5, 'PageDown', 17],
    [17, 'PageUp', 5],
    [5, 'Home', 4],
    [5, 'End', 7],
    [5, 'Control+Home', 0],
    [5, 'Control+End', 23],
    // It stays at the edges.
    [3, 'ArrowRight', 3],
    [0, 'ArrowUp', 0],
    [17, 'PageDown', 17],
  ])('from %s by %s leads to %i', (from, keys, to) => {
    const [key = ''] = keys.split('+').reverse();
    expect(moved(blocks, from, key, keys.startsWith('Control'))).toBe(to);
  });
});
