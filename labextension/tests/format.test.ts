import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, it } from 'vitest';

import { findArrays } from '../src/view/model/array_text';
import {
  bytesText,
  metricText,
  rangesText,
  secondsText,
  slicesText,
  specText,
} from '../src/view/model/format';
import { shortenAll } from '../src/view/model/shorten';
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

const longNames = golden('long_names').snapshot.arrays.map(array => array.path);
const likeATree = Array.from(
  { length: 2000 },
  (_, i) => `opt_state[${i % 3}].mu['layers'][${Math.floor(i / 3)}].attention.query.kernel`,
);

describe('shortening', () => {
  it('leaves names that fit', () => {
    expect([...shortenAll(['w', 'bias'], 20).values()]).toEqual(['w', 'bias']);
  });

  it.each([12, 18, 24, 40])('keeps long names apart within %i characters', length => {
    for (const names of [longNames, likeATree]) {
      const texts = [...shortenAll(names, length).values()];
      expect(new Set(texts).size).toBe(names.length);
      expect(Math.max(...texts.map(text => text.length))).toBeLessThanOrEqual(length);
    }
  });

  it('keeps the start and the end', () => {
    const [text] = shortenAll(["params['encoder']['layers_0'].attention.kernel"], 20).values();
    expect(text).toMatch(/^params.*….*kernel$/);
  });

  it('shows the part in which names differ rather than a number', () => {
    const names = ['mu', 'nu'].map(n => `state.optimizer.${n}['transformer']['layers'].kernel`);
    for (const text of shortenAll(names, 24).values()) expect(text).not.toContain('~');
  });

  it('never gives a shortened name the text of a whole one', () => {
    const long = 'aaaaaaaaaaaaaaaaaaaa';
    const first = shortenAll([long], 10).get(long) ?? '';
    const texts = shortenAll([long, first], 10);
    expect(texts.get(long)).not.toBe(texts.get(first));
  });
});
