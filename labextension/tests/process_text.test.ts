import { describe, expect, it } from 'vitest';

import { SILENT_SECONDS } from '../src/view/model/contract';
import { metricText } from '../src/view/model/format';
import { activityParts, metricsText, taskText } from '../src/view/model/process_text';
import type { Process } from '../src/view/model/snapshot';
import { golden } from './golden';

const [chief, , evaluator] = golden('tensorflow').snapshot.processes;

describe('a process', () => {
  it('has the name the framework gives it, else a role that is not the usual one', () => {
    if (!chief || !evaluator) throw new Error('missing');
    expect(taskText(chief)).toBe('worker 0, chief');
    expect(taskText({ ...chief, task: null })).toBe('');
    expect(taskText({ ...evaluator, task: null })).toBe('evaluator');
  });

  it('tells its measures with three digits', () => {
    if (!evaluator?.progress) throw new Error('missing');
    expect(metricsText(evaluator.progress)).toBe('loss 0.418  accuracy 0.88');
    expect([1534.4, 1.2e-5, -0.5].map(metricText)).toEqual(['1534', '1.2e-5', '-0.5']);
  });
});

describe('what a process is doing', () => {
  const [first] = golden('tour').snapshot.processes;
  if (!first) throw new Error('missing');
  const process: Process = {
    ...first,
    state: 'running',
    cell: 12,
    line: 4,
    cell_seconds: 30,
    line_seconds: 3.2,
    waiting: false,
    error: null,
    silent_seconds: 0.1,
  };

  it.each<[string, Partial<Process>, readonly string[]]>([
    ['computes', {}, ['cell 12', 'line 4', '30 s']],
    ['waits in a line', { waiting: true }, ['cell 12', 'line 4', 'waiting', '3.2 s']],
    ['has no line yet', { line: null }, ['cell 12', '30 s']],
    ['compiles', { state: 'compiling' }, ['compiling', 'cell 12', 'line 4', '30 s']],
    ['is stuck in a line', { state: 'stuck' }, ['stuck', 'cell 12', 'line 4', '3.2 s']],
    [
      'has failed',
      { state: 'failed', error: 'ValueError: empty' },
      ['ValueError: empty', 'cell 12', 'line 4'],
    ],
    ['is idle', { state: 'idle' }, ['idle']],
    ['has not reported yet', { state: 'starting', silent_seconds: null }, ['starting']],
    ['is silent', { state: 'idle', silent_seconds: 6 }, ['idle', 'last report 6.0 s ago']],
    ['is late by the limit', { state: 'idle', silent_seconds: SILENT_SECONDS }, ['idle']],
    [
      'is lost',
      { state: 'lost', error: 'killed', silent_seconds: 1 },
      ['lost', 'killed', 'last report 1.0 s ago'],
    ],
  ])('is said where it %s', (_, change, parts) => {
    expect(activityParts({ ...process, ...change })).toEqual(parts);
  });
});
