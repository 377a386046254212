import { describe, expect, it } from 'vitest';

import { VERSION } from '../src/view/model/contract';
import { takeFrame, type Known } from '../src/view/model/frame';
import type { Frame } from '../src/view/model/messages';
import { isFrame } from '../src/view/model/received';
import { golden } from './golden';

const { snapshot } = golden('tour');

const frame = (sequence: number, base: number | null, part: Frame['snapshot']): Frame => ({
  type: 'frame',
  stream: 's',
  sequence,
  base,
  age: 0,
  snapshot: part,
});

const known: Known = { stream: 's', sequence: 3, snapshot };

describe('frames', () => {
  it('begin with a full one', () => {
    expect(takeFrame(null, frame(2, 1, { state: 'idle' }))).toEqual({
      known: null,
      result: 'missed',
    });
    expect(takeFrame(null, frame(3, null, snapshot))).toEqual({ known, result: 'new' });
  });

  it('change only the sections they carry', () => {
    const taken = takeFrame(known, frame(4, 3, { state: 'idle' }));
    expect(taken.result).toBe('new');
    expect(taken.known?.snapshot.state).toBe('idle');
    expect(taken.known?.snapshot.arrays).toBe(snapshot.arrays);
  });

  it('wait for a full one after a gap', () => {
    const taken = takeFrame(known, frame(6, 5, { state: 'idle' }));
    expect(taken).toEqual({ known, result: 'missed' });
    expect(takeFrame(known, frame(6, null, snapshot)).result).toBe('new');
  });

  it('that say the same once more change nothing', () => {
    expect(takeFrame(known, frame(3, null, snapshot))).toEqual({ known, result: 'same' });
    expect(takeFrame(known, frame(3, 3, {}))).toEqual({ known, result: 'same' });
    expect(takeFrame(known, frame(2, 1, { state: 'idle' }))).toEqual({ known, result: 'same' });
  });

  it('of another sender are missed until it sends a full one', () => {
    const other = { ...frame(9, 8, { state: 'idle' as const }), stream: 't' };
    expect(takeFrame(known, other).result).toBe('missed');
    expect(takeFrame(known, { ...other, base: null, snapshot }).known?.stream).toBe('t');
  });

  it('of another version are not read', () => {
    const newer = frame(4, null, { ...snapshot, version: VERSION + 1 });
    expect(takeFrame(known, newer)).toEqual({ known, result: 'unreadable' });
  });

  it('are told from other messages', () => {
    expect(isFrame(frame(1, null, snapshot))).toBe(true);
    for (const other of [null, 3, {}, { type: 'frame' }, { ...frame(1, null, {}), base: 'x' }]) {
      expect(isFrame(other)).toBe(false);
    }
  });
});
