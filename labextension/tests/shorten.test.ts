import { describe, expect, it } from 'vitest';

import { shortenAll } from '../src/view/model/shorten';
import { golden } from './golden';

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
