import { describe, expect, it } from 'vitest';

import { readAnswer } from '../src/controls/start_check';
import {
  DEFAULTS,
  lastStart,
  lineOf,
  piecesOf,
  startCell,
  valuesOf,
  type StartValues,
} from '../src/controls/start_line';

const values = (some: Partial<StartValues>): StartValues => ({ ...DEFAULTS, ...some });

describe('the line of a start', () => {
  const same: [StartValues, string][] = [
    [DEFAULTS, '%dist_init'],
    [values({ processes: '4', devices: '2' }), '%dist_init -n 4 --devices-per-process 2'],
    [values({ place: 'slurm', further: '--nodes 2' }), '%dist_init --slurm --nodes 2'],
    [values({ place: 'hosts', hosts: 'h[1-3]:2,u@x' }), '%dist_init --hosts h[1-3]:2,u@x'],
    [
      values({ platform: 'cpu', framework: 'keras', further: "--env A='b c' --keep" }),
      "%dist_init --platform cpu --framework keras --env A='b c' --keep",
    ],
    [values({ processes: '4 --keep' }), "%dist_init -n '4 --keep'"],
  ];

  it.each(same)('is made from the form, %#', (form, line) => {
    expect(lineOf(form)).toBe(line);
  });

  it.each(same)('makes the form, %#', (form, line) => {
    expect(valuesOf(line)).toEqual(form);
  });

  it('keeps a value one word, whatever is in it', () => {
    expect(lineOf(values({ processes: "1'; rm" }))).toBe(`%dist_init -n '1'"'"'; rm'`);
    expect(valuesOf(lineOf(values({ hosts: "a'b c", place: 'hosts' }))).hosts).toBe("a'b c");
    expect(lineOf(values({ platform: '<b>' }))).toBe("%dist_init --platform '<b>'");
  });

  it('asks for hosts also if none is named, so that the parser refuses it', () => {
    expect(piecesOf(values({ place: 'hosts' }))).toEqual([['hosts', '--hosts']]);
    expect(piecesOf(values({ hosts: 'h1' }))).toEqual([]);
  });

  it('goes into a cell below the extension, if that is not loaded', () => {
    expect(startCell('%dist_init', false)).toBe('%load_ext nbdist\n%dist_init');
    expect(startCell('%dist_init', true)).toBe('%dist_init');
  });

  it('is found in a notebook, unless it continues another session', () => {
    const cells = ['%load_ext nbdist\n%dist_init -n 4', 'x', '%dist_init --restart'];
    expect(lastStart([...cells, '%dist_init --attach last', '%dist_initial'])).toBe(
      '%dist_init -n 4',
    );
    expect(lastStart(['x'])).toBeNull();
  });
});

describe('what the kernel answers to a form', () => {
  const answer = { error: null, loaded: true, choices: {} };

  it('is read', () => {
    expect(readAnswer({ status: 'ok', data: { 'application/json': answer } })).toEqual(answer);
  });

  it.each([undefined, null, 3, {}, { status: 'error', ename: 'NameError', evalue: 'x' }])(
    'is an error of the whole form if it is %j',
    wrong => {
      expect(readAnswer(wrong).error?.field).toBeNull();
    },
  );
});
