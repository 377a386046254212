import { gzipSync } from 'node:zlib';

import { describe, expect, it } from 'vitest';

import { VERSION } from '../src/view/model/contract';
import { isFrame, takeFrame, unpacked, type Known } from '../src/view/model/frames';
import type { Frame } from '../src/view/model/messages';
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
const idle = { state: 'idle' } as const;
const full = frame(9, null, snapshot);

describe('frames', () => {
  it.each<[string, Known | null, Frame, string]>([
    ['a part before a full one', null, frame(2, 1, idle), 'missed'],
    ['a full one', null, frame(3, null, snapshot), 'new'],
    ['a full one after a gap', known, frame(6, null, snapshot), 'new'],
    ['a part after a gap', known, frame(6, 5, idle), 'missed'],
    ['the same full one', known, frame(3, null, snapshot), 'same'],
    ['the same part', known, frame(3, 3, {}), 'same'],
    ['an earlier part', known, frame(2, 1, idle), 'same'],
    ['a part of another sender', known, { ...frame(9, 8, idle), stream: 't' }, 'missed'],
    ['another version', known, frame(4, null, { ...snapshot, version: VERSION + 1 }), 'unreadable'],
  ])('are taken for what they are: %s', (_, before, received, result) => {
    const taken = takeFrame(before, received);
    expect(taken.result).toBe(result);
    if (result === 'new') expect(taken.known?.sequence).toBe(received.sequence);
    else expect(taken.known).toBe(before);
  });

  it('change only the sections they carry, and may come from another sender', () => {
    const { known: later } = takeFrame(known, frame(4, 3, idle));
    expect(later?.snapshot.state).toBe('idle');
    expect(later?.snapshot.arrays).toBe(snapshot.arrays);
    expect(takeFrame(known, { ...full, stream: 't' }).known?.stream).toBe('t');
  });

  it('are told from other messages', () => {
    expect(isFrame(full)).toBe(true);
    for (const other of [null, 3, {}, { type: 'frame' }, { ...full, base: 'x' }]) {
      expect(isFrame(other)).toBe(false);
    }
  });

  it('in a notebook are what was packed, and none where that is damaged or something else', async () => {
    const pack = (value: unknown): string => gzipSync(JSON.stringify(value)).toString('base64');
    const saved = { ...frame(1, null, {}), stream: '×' };
    expect(await unpacked(pack(saved))).toEqual(saved);
    const other = Buffer.from('{}').toString('base64');
    for (const text of [pack(saved).slice(0, 24), '…', '', other, pack({ type: 'values' })]) {
      expect(await unpacked(text)).toBeNull();
    }
  });
});
