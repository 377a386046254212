import { describe, expect, it } from 'vitest';

import { factsOf, rulesOf, rulesTitle } from '../src/view/model/distribution_text';
import {
  labelOfVariable,
  layoutForm,
  textsOfVariable,
} from '../src/view/sections/lists/layout_row';
import { rowAfter } from '../src/view/sections/lists/list_keys';
import { keyOfModel, modelOf, sizeText, titleOf, totalsTexts } from '../src/view/model/model_text';
import type { Distribution, Model, Variable } from '../src/view/model/snapshot';
import { golden, meshesOf } from './golden';

function the<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('missing');
  return value;
}

const first = <T>(values: readonly T[]): T => the(values[0]);

const keras = golden('keras_model').snapshot;
const parallel: Distribution = first(keras.distributions);
const model: Model = first(keras.models);
const kernel = the(model.variables.find(({ path }) => path.endsWith('/dense/kernel')));

describe('a distribution', () => {
  it('is said with its mesh, batch axis, auto-sharding and batch', () => {
    expect(factsOf(parallel, meshesOf(keras))).toEqual([
      ['mesh', 'batch=2 × model=2'],
      ['batches split over', 'batch'],
      ['auto-sharding', 'off'],
      ['global batch', '64'],
    ]);
  });

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
    expect(rules[2]?.axes).toEqual([[], ['model'], []]);
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
    expect(labelOfVariable(textsOfVariable(kernel, true))).toBe(
      'sequential/dense/kernel, f32[512,2048], trainable, rule .*dense.*/kernel, ' +
        'asks for (·, model), lies (·, model), 2 MB a device',
    );
    expect(labelOfVariable(textsOfVariable(first(model.variables), true))).toContain(
      'whole on every device: no rule matched it',
    );
  });

  it('may have a layout of its own without a rule', () => {
    const texts = textsOfVariable({ ...kernel, rule: null }, true);
    expect(labelOfVariable(texts)).toContain('trainable, no rule, asks for (·, model), lies');
  });

  it('has no word about rules where there are none', () => {
    const texts = textsOfVariable({ ...kernel, rule: null, axes: null }, false);
    expect(texts.rule).toBe('');
    expect(labelOfVariable(texts)).not.toContain('rule');
  });

  it('has a line where everything fits, else several', () => {
    const texts = model.variables.map(variable => textsOfVariable(variable, true));
    const wide = layoutForm(texts, 960, 6.6);
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
    expect(sizeText(model)).toBe('16 variables, 83.5 MB in one copy');
    const devices = new Map(keras.devices.map(device => [device.key, device]));
    expect(totalsTexts(model, devices)).toEqual(['65.7 MB on each of 4 devices']);
    const totals = [
      { devices: ['0:0'], nbytes: 2048 },
      { devices: ['0:1', '1:2048'], nbytes: 1024 },
    ];
    expect(totalsTexts({ ...model, totals }, devices)).toEqual([
      '2 KB on cpu 0',
      '1 KB on cpu 1, cpu 2048',
    ]);
  });
});

describe('keys in a list', () => {
  it('move to a row that is there', () => {
    expect(rowAfter('ArrowDown', -1, 3, 100)).toBe(0);
    expect(rowAfter('ArrowUp', 0, 3, 100)).toBe(0);
    expect(rowAfter('End', 0, 3, 100)).toBe(2);
    expect(rowAfter('PageDown', 0, 3, 100)).toBe(2);
    expect(rowAfter('x', 0, 3, 100)).toBeNull();
  });
});
