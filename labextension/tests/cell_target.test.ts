import { describe, expect, it } from 'vitest';

import {
  choices,
  retargeted,
  targetOf,
  targetText,
  type Target,
} from '../src/controls/cell_target';

const all: Target = { kind: 'all' };
const here: Target = { kind: 'here' };
const both: Target = { kind: 'both' };
const some = (on: string): Target => ({ kind: 'some', on });

describe('where a cell runs', () => {
  it.each<[string, boolean, Target]>([
    ['x = 1', false, here],
    ['x = 1', true, all],
    ['', true, here],
    ['# a remark', true, here],
    ['%%dist\nx', false, all],
    ['\n\n%%dist\nx', false, all],
    ['%%distributed --timeout 3\nx', false, all],
    ['%%dist --on 0,2\nx', false, some('0,2')],
    ['%%dist --timeout 3 --on=host=h1 --no-wait\nx', false, some('host=h1')],
    ["%%dist --on '0, 2'\nx", false, some('0, 2')],
    ['%%dist --here\nx', false, both],
    ['%%rank [0,1-2]\nx', false, some('[0,1-2]')],
    ['%%rank[0]\nx', true, some('[0]')],
    ['%%local\nx', true, here],
    ['%%bash\nls', true, { kind: 'fixed' }],
    ['%%dist_rehearse\nx', true, { kind: 'fixed' }],
    ['%load_ext nbdist\n%dist_init -n 2', true, { kind: 'fixed' }],
    ['%dist_init\nx = 1', true, all],
  ])('%j, %j', (source, mode, target) => {
    expect(targetOf(source, mode)).toEqual(target);
  });

  it.each<[string, Target, boolean, string]>([
    ['x = 1', all, false, '%%dist\nx = 1'],
    ['x = 1', some('0,2'), false, '%%dist --on 0,2\nx = 1'],
    ['%%dist\nx = 1', here, false, 'x = 1'],
    ['%%dist --on 0\nx = 1', all, false, '%%dist\nx = 1'],
    ['%%dist --on 0 --timeout 3\nx', some('1'), false, '%%dist --on 1 --timeout 3\nx'],
    ['%%dist --timeout 3 --here\nx', all, false, '%%dist --timeout 3\nx'],
    ['%%dist --on 0\nx', both, false, '%%dist --here\nx'],
    ['%%rank [0,1-2]\nx', all, false, '%%dist\nx'],
    ['\n%%dist\n\nx', here, false, '\nx'],
    ['x = 1', here, true, '%%local\nx = 1'],
    ['%%local\nx = 1', all, true, 'x = 1'],
    ['%%dist --on 0\nx', all, true, 'x'],
    ['%%dist --on 0 --timeout 3\nx', all, true, '%%dist --timeout 3\nx'],
    ['%%bash\nls', all, false, '%%bash\nls'],
    ['%%dist', here, false, ''],
    ['x', some("0 '2"), false, "%%dist --on '0 2'\nx"],
  ])('is changed by its first line, %j', (source, target, mode, changed) => {
    expect(retargeted(source, target, mode)).toBe(changed);
  });

  it('is after a change what was chosen', () => {
    for (const mode of [false, true]) {
      for (const source of ['x = 1', '%%dist --on 0 --no-wait\nx', '%%rank [1]\nx', '%%local\nx']) {
        for (const target of [all, here, both, some('1,3')])
          expect(targetOf(retargeted(source, target, mode), mode)).toEqual(target);
      }
    }
  });

  it('is chosen from all processes, each of a few, both and here', () => {
    expect(choices(2).map(targetText)).toEqual([
      'all processes',
      'process 0',
      'process 1',
      'all, then here',
      'only here',
    ]);
    expect(choices(64)).toHaveLength(3);
  });
});
