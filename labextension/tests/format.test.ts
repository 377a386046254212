import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

import { findArrays } from '../src/view/model/array_text';
import {
  bytesText,
  deviceNumbers,
  deviceShort,
  deviceText,
  metricText,
  rangesText,
  secondsText,
  slicesText,
  specText,
} from '../src/view/model/format';
import { golden } from './golden';

const bytes = new URL('../../tests/golden/texts/bytes.json', import.meta.url);
const byteTexts = JSON.parse(readFileSync(fileURLToPath(bytes), 'utf-8')) as [number, string][];

describe('texts', () => {
  it.each(byteTexts)('write %d bytes as %s, as Python does', (count, text) => {
    expect(bytesText(count)).toBe(text);
  });

  it.each([
    [0.04, '0.0 s'],
    [3.21, '3.2 s'],
    [9.96, '10 s'],
    [42.4, '42 s'],
    [59.6, '1 min 0 s'],
    [200, '3 min 20 s'],
    [3599.8, '1 h 0 min'],
    [7500, '2 h 5 min'],
  ])('write %d seconds as %s', (seconds, text) => {
    expect(secondsText(seconds)).toBe(text);
  });

  it('write numbers as ranges', () => {
    expect(rangesText([3, 0, 1, 2, 6])).toBe('0–3, 6');
    expect(rangesText([0, 1])).toBe('0, 1');
    expect(rangesText([])).toBe('');
    const every3 = Array.from({ length: 40 }, (_, i) => 3 * i);
    expect(rangesText(every3)).toBe('0, 3, 6, 9, 12, 15, … (40)');
  });

  it('write slices, specs and measures as Python does', () => {
    expect(slicesText([[0, 128], [128, 256]])).toBe('[0:128, 128:256]'); // prettier-ignore
    expect(slicesText([])).toBe('[]');
    const sharding = { kind: 'named' as const, mesh: 'm', memory_kind: null };
    expect(specText({ ...sharding, spec: [['a', 'b'], []], unreduced: ['c'] })).toBe(
      "P(('a', 'b'), None, unreduced={'c'})",
    );
    expect([1534.4, 1.2e-5, -0.5].map(metricText)).toEqual(['1534', '1.2e-5', '-0.5']);
  });
});

describe('finding arrays', () => {
  const { arrays } = golden('tour').snapshot;

  it.each([
    ['KERNEL mu', ['opt.mu.dense1.kernel']],
    ['kernel nothing', []],
    ['f32[256]', ['params.dense1.bias']],
    ["P('data', None)", ['batch']],
  ])('wants every word of path, type or spec, in any order and case: %s', (query, paths) => {
    expect(findArrays(arrays, query).map(array => array.path)).toEqual(paths);
  });

  it('keeps all for an empty search', () => {
    expect(findArrays(arrays, '  ')).toBe(arrays);
  });
});

describe('names of devices', () => {
  const { devices } = golden('tour').snapshot;

  it('count those of each process from 0, as Python does', () => {
    const numbers = deviceNumbers([...devices].reverse());
    expect(deviceText('1:2048', numbers)).toBe('process 1 · device 0');
    expect(deviceShort('3:6145', numbers)).toBe('p3 · d1');
  });

  it('say the id of a device that nobody has reported', () => {
    expect(deviceText('1:2048', new Map())).toBe('process 1 · JAX id 2048');
    expect(deviceShort('1:2048', new Map())).toBe('p1 · id 2048');
  });
});
