import { describe, expect, it } from 'vitest';

import { findArrays } from '../src/view/model/find';
import { golden } from './golden';

const arrays = golden('tour').snapshot.arrays;
const found = (query: string): string[] => findArrays(arrays, query).map(array => array.path);

describe('finding arrays', () => {
  it('keeps all for an empty search', () => {
    expect(findArrays(arrays, '  ')).toBe(arrays);
  });

  it('wants every word, in any order and case', () => {
    expect(found('KERNEL mu')).toEqual(['opt.mu.dense1.kernel']);
    expect(found('kernel nothing')).toEqual([]);
  });

  it('looks at shapes, dtypes and specs', () => {
    expect(found('f32[256]')).toEqual(['params.dense1.bias']);
    expect(found("P('data', None)")).toEqual(['batch']);
  });
});
