import { describe, expect, it } from 'vitest';

import { layoutForm } from '../src/view/layout/list_layout';
import { SILENT_SECONDS } from '../src/view/model/contract';
import { deviceNumbers } from '../src/view/model/format';
import { factsOf, rulesOf, rulesTitle } from '../src/view/sections/session/distributions';
import {
  keyOfModel,
  describeVariable,
  modelOf,
  sizeText,
  textsOfVariable,
  titleOf,
  totalsTexts,
} from '../src/view/model/model_text';
import type { Distribution, Model, Process, Variable } from '../src/view/model/snapshot';
import { activityParts, metricsText, taskText } from '../src/view/sections/session/processes';
import { golden, the } from './golden';

const first = <T>(values: readonly T[]): T => the(values[0]);

const keras = golden('keras_model').snapshot;
const parallel: Distribution = first(keras.distributions);
const model: Model = first(keras.models);
const kernel = the(model.variables.find(({ path }) => path.endsWith('/dense/kernel')));

describe('a distribution', () => {
  it('says what each replica gets of a batch', () => {
    const strategy = first(golden('tensorflow').snapshot.distributions);
    const told = (one: Distribution): unknown => factsOf(one, new Map()).at(-1);
    expect(told(strategy)).toEqual(['on the replicas', '3, 3, 2, 2']);
    const even = { ...strategy, replica_batches: [8, 8] };
    expect(told(even)).toEqual(['on the replicas', '8 each']);
  });

  it('has rules that match and rules that do not, once there is a model', () => {
    const rules = rulesOf(parallel, keras.models);
    expect(rules.map(rule => rule.matched)).toEqual([true, true, false]);
    expect(rules[2]?.axes.map(part => part.text).join('')).toBe("P(None, 'model', None)");
    expect(rulesTitle(rules)).toBe('3 layout rules, 1 matches nothing');
    expect(rulesTitle(rulesOf(parallel, []))).toBe('3 layout rules');
  });

  it('has its rules matched with the models of its own processes', () => {
    const { distributions, models } = golden('keras_disagree').snapshot;
    const rules = rulesOf(the(distributions[1]), models);
    expect(rules.map(rule => rule.matched)).toEqual([true, false]);
  });
});

describe('a variable', () => {
  it('is flagged where no rule matched it and where it does not lie as its rule asks', () => {
    const flag = (variable: Variable): unknown => textsOfVariable(variable, true).flag;
    expect(flag(first(model.variables))).toBe('missed');
    expect(flag(kernel)).toBeNull();
    expect(flag({ ...kernel, spec: [[], []] })).toBe('differs');
    expect(flag({ ...kernel, spec: null })).toBe('differs');
    expect(flag({ ...kernel, axes: [null, 'model', null], spec: [[], ['model'], []] })).toBeNull();
    expect(flag({ ...kernel, axes: [], spec: [[], []] })).toBeNull();
  });

  it('is told in words with rule, layout and bytes', () => {
    const label = (variable: Variable, ruled = true): string =>
      describeVariable(textsOfVariable(variable, ruled));
    const about = 'sequential/dense/kernel, trainable';
    const lies = "spec P(None, 'model'), 2 MB per device";
    const asks = "asks for P(None, 'model')";
    expect(label(kernel)).toBe(`${about}, rule .*dense.*/kernel, ${asks}, ${lies}`);
    expect(label({ ...kernel, rule: null })).toBe(`${about}, no rule, ${asks}, ${lies}`);
    expect(label({ ...kernel, rule: null, axes: null }, false)).toBe(`${about}, ${lies}`);
    expect(label(first(model.variables))).toContain(
      'replicated on every device: no rule matched it',
    );
  });

  it('has a line where everything fits, else several', () => {
    const texts = model.variables.map(variable => textsOfVariable(variable, true));
    const wide = layoutForm(texts, 1060, 6.6);
    const narrow = layoutForm(texts, 300, 6.6);
    expect([wide.kind, narrow.kind]).toEqual(['line', 'stacked']);
    expect(wide.height(first(texts))).toBeLessThan(narrow.height(first(texts)));
  });
});

describe('a model', () => {
  const versions = golden('keras_disagree').snapshot.models;

  it('is the chosen version, else another of its path, else the first', () => {
    const second = the(versions[1]);
    expect(modelOf(versions, keyOfModel(second))).toBe(second);
    expect(modelOf(versions, 'model 7')).toBe(versions[0]);
    expect(modelOf(versions, null)).toBe(versions[0]);
    expect(modelOf([], null)).toBeNull();
    expect(titleOf(second)).toBe('model, Sequential (process 2)');
  });

  it('says its size and what devices hold, by name where they differ', () => {
    expect(sizeText(model)).toBe('16 variables, 83.5 MB');
    const numbers = deviceNumbers(keras.devices);
    expect(totalsTexts(model, numbers)).toEqual(['65.7 MB on each of 4 devices']);
    const totals = [
      { devices: ['0:0'], nbytes: 2048 },
      { devices: ['0:1', '1:2048'], nbytes: 1024 },
    ];
    expect(totalsTexts({ ...model, totals }, numbers)).toEqual([
      '2 KB on p0 · d0',
      '1 KB on p0 · d1, p1 · d0',
    ]);
  });
});

const [chief, , evaluator] = golden('tensorflow').snapshot.processes;

describe('a process', () => {
  it('has the name the framework gives it, else a role that is not the usual one', () => {
    expect(taskText(the(chief))).toBe('worker 0, chief');
    expect(taskText({ ...the(chief), task: null })).toBe('');
    expect(taskText({ ...the(evaluator), task: null })).toBe('evaluator');
  });

  it('tells its measures', () => {
    expect(metricsText(the(evaluator?.progress))).toBe('loss 0.418  accuracy 0.88');
  });
});

describe('what a process is doing', () => {
  const process: Process = {
    ...the(golden('tour').snapshot.processes[0]),
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
    ['computes', {}, ['line 4', 'cell running 30 s']],
    ['waits in a line', { waiting: true }, ['line 4', 'waiting 3.2 s']],
    ['has no line yet', { line: null }, ['cell 12', 'cell running 30 s']],
    ['compiles', { state: 'compiling' }, ['compiling', 'line 4', 'cell running 30 s']],
    ['is stuck in a line', { state: 'stuck' }, ['stuck', 'line 4', '3.2 s']],
    [
      'has failed',
      { state: 'failed', error: 'ValueError: empty' },
      ['ValueError: empty', 'line 4'],
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
