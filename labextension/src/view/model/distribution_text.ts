/** What is set to spread data and variables over devices, in words. */

import { countText, meshText } from './format';
import type { Distribution, Mesh, Model } from './snapshot';

/** A label and its value; the value is set as code. */
export type Fact = readonly [label: string, value: string];

/** A rule of a layout map and whether it matched a variable of any model. */
export interface RuleTexts {
  readonly pattern: string;
  readonly axes: readonly (readonly string[])[];
  readonly matched: boolean;
}

/** `3, 3, 2, 2`; `8 each` where all get the same. */
function eachText(batches: readonly number[]): string {
  const [first] = batches;
  if (first !== undefined && batches.every(batch => batch === first)) return `${first} each`;
  const shown = batches.slice(0, 16).join(', ');
  return batches.length > 16 ? `${shown}, …` : shown;
}

export function factsOf(one: Distribution, meshes: ReadonlyMap<string, Mesh>): readonly Fact[] {
  const facts: Fact[] = [];
  const mesh = one.mesh === null ? undefined : meshes.get(one.mesh);
  if (mesh) facts.push(['mesh', meshText(mesh)]);
  if (one.batch_axis !== null) facts.push(['batches split over', one.batch_axis]);
  if (one.auto_shard !== null) facts.push(['auto-sharding', one.auto_shard ? 'on' : 'off']);
  if (one.replicas !== null) facts.push(['replicas', String(one.replicas)]);
  if (one.global_batch !== null) facts.push(['global batch', String(one.global_batch)]);
  if (one.replica_batches.length) {
    facts.push(['on the replicas', eachText(one.replica_batches)]);
  }
  return facts;
}

/** The rules in their order; without a model to match, none counts as unmatched. */
export function rulesOf(one: Distribution, models: readonly Model[]): readonly RuleTexts[] {
  const theirs = models.filter(model => shareProcesses(one, model));
  return one.rules.map(({ pattern, axes }) => ({
    pattern,
    axes: axesOf(axes),
    matched: !theirs.length || theirs.some(model => !model.unmatched.includes(pattern)),
  }));
}

/** Whether some process has both; no list of processes means all. */
const shareProcesses = (one: Distribution, { processes }: Model): boolean =>
  !one.processes.length || !processes.length || processes.some(id => one.processes.includes(id));

/** A rule's axes in the form of a spec: one list of axes for each dimension. */
export const axesOf = (axes: readonly (string | null)[]): readonly (readonly string[])[] =>
  axes.map(axis => (axis === null ? [] : [axis]));

/** `3 layout rules, 1 matches nothing`. */
export function rulesTitle(rules: readonly RuleTexts[]): string {
  const unused = rules.filter(rule => !rule.matched).length;
  const count = countText(rules.length, 'layout rule');
  return unused ? `${count}, ${unused} ${unused === 1 ? 'matches' : 'match'} nothing` : count;
}
