import { describe, expect, it } from 'vitest';

import { bytesText, rangesText, secondsText, slicesText, specText } from '../src/view/model/format';

describe('texts', () => {
  it('write bytes with three digits', () => {
    expect([0, 512, 65536, 19293798, 16 << 20].map(bytesText)).toEqual([
      '0 B',
      '512 B',
      '64 KB',
      '18.4 MB',
      '16 MB',
    ]);
    expect(bytesText(1023 * 1024)).toBe('1 MB');
  });

  it('write times', () => {
    expect([0.04, 3.21, 42.4, 200, 7500].map(secondsText)).toEqual([
      '0.0 s',
      '3.2 s',
      '42 s',
      '3 min 20 s',
      '2 h 5 min',
    ]);
    expect([9.96, 59.6, 119.7, 3599.8].map(secondsText)).toEqual([
      '10 s',
      '1 min 0 s',
      '2 min 0 s',
      '1 h 0 min',
    ]);
  });

  it('write numbers as ranges', () => {
    expect(rangesText([3, 0, 1, 2, 6])).toBe('0–3, 6');
    expect(rangesText([0, 1])).toBe('0, 1');
    expect(rangesText([])).toBe('');
    const every3 = Array.from({ length: 40 }, (_, i) => 3 * i);
    expect(rangesText(every3)).toBe('0, 3, 6, 9, 12, 15, … (40)');
  });

  it('write slices and specs as Python does', () => {
    expect(slicesText([[0, 128], [128, 256]])).toBe('[0:128, 128:256]'); // prettier-ignore
    expect(slicesText([])).toBe('[]');
    const sharding = { kind: 'named' as const, mesh: 'm', memory_kind: null };
    expect(specText({ ...sharding, spec: [['a', 'b'], []], unreduced: ['c'] })).toBe(
      "P(('a', 'b'), None, unreduced={'c'})",
    );
  });
});
