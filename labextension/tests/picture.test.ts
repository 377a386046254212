import { describe, expect, it } from 'vitest';

import { WIDTH, rectanglesOf } from '../src/view/layout/picture_layout';
import type { Holding } from '../src/view/model/pieces';
import { paintIndices } from '../src/view/paint/picture_painter';
import type { Look } from '../src/view/paint/theme';

/** Return a vector cut into `count` pieces. */
function cut(count: number): Holding {
  const pieces = Array.from({ length: count }, (_, n) => ({
    slices: [[n, n + 1]] as const,
    devices: [`0:${n}`],
    addend: null,
  }));
  return { pieces, of: new Map(), addends: 1, own: false };
}

/** Return the texts that are written into the picture, in letters of 6 pixels. */
function written(holding: Holding): string[] {
  const texts: string[] = [];
  const context = {
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string) => texts.push(text),
  } as unknown as CanvasRenderingContext2D;
  const look = { mono: 'monospace', ink: '#000' } as Look;
  paintIndices(context, rectanglesOf(holding, 1), holding, 1, look);
  return texts;
}

describe('numbers in the little picture of an array', () => {
  it('stand in all pieces', () => {
    expect(written(cut(4))).toEqual(['0', '1', '2', '3']);
  });

  it('stand in none where the longest has no room', () => {
    // One digit fits into each piece, two digits do not.
    expect(WIDTH / 16 - 3).toBeGreaterThanOrEqual(6);
    expect(written(cut(16))).toEqual([]);
  });
});
