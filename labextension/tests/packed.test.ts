import { gzipSync } from 'node:zlib';

import { describe, expect, it } from 'vitest';

import { unpacked } from '../src/packed';

const frame = { type: 'frame', stream: 's', sequence: 1, base: null, age: 0, snapshot: {} };
const pack = (value: unknown): string => gzipSync(JSON.stringify(value)).toString('base64');

describe('a frame in a notebook', () => {
  it('is what was packed', async () => {
    expect(await unpacked(pack({ ...frame, stream: '×' }))).toEqual({ ...frame, stream: '×' });
  });

  it('is none where it is damaged, or something else', async () => {
    const whole = pack(frame);
    const other = Buffer.from('{}').toString('base64');
    for (const text of [whole.slice(0, 24), '…', '', other, pack({ type: 'values' })]) {
      expect(await unpacked(text)).toBeNull();
    }
  });
});
