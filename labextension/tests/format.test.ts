import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

import { bytesText, rangesText, secondsText, slicesText, specText } from '../src/view/model/format';

const byteTexts = JSON.parse(
  readFileSync(
    fileURLToPath(new URL('../../tests/golden/texts/bytes.json', import.meta.url)),
    'utf-8',
  ),
) as [number, string][];

describe('texts', () => {
  it.each(byteTexts)('write %d bytes as %s, as Python does', (bytes, text) => {
    expect(bytesText(bytes)).toBe(text);
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
