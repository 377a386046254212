/** Texts about the distribution that spreads data and variables over devices. */

import { countText, meshText } from './format';
import type { Distribution, Mesh, Model } from './snapshot';

/** A label and its value; the value is shown as code. */
export type Fact = readonly [label: string, value: string];

/** A rule of a layout map, and whether it matched a variable of any model. */
export interface RuleTexts {
  readonly pattern: string;
  readonly axes: readonly (readonly string[])[];
  readonly matched: boolean;
}

/** Return the batch of each replica: `3, 3, 2, 2`, or `8 each` if all are equal. */
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

/** Return the rules in their order; if there is no model to match, every rule counts as matched. */
export function rulesOf(one: Distribution, models: readonly Model[]): readonly RuleTexts[] {
  const theirs = models.filter(model => shareProcesses(one, model));
  return one.rules.map(({ pattern, axes }) => ({
    pattern,
    axes: axesOf(axes),
    matched: !theirs.length || theirs.some(model => !model.unmatched.includes(pattern)),
  }));
}

/** Return whether some process has both; an empty list of processes means all. */
const shareProcesses = (one: Distribution, { processes }: Model): boolean =>
  !one.processes.length || !processes.length || processes.some(id => one.processes.includes(id));

/** Return a rule's axes in the form of a spec: one list of axes for each dimension. */
export const axesOf = (axes: readonly (string | null)[]): readonly (readonly string[])[] =>
  axes.map(axis => (axis === null ? [] : [axis]));

/** Return the title of the rules: `3 layout rules, 1 matches nothing`. */
export function rulesTitle(rules: readonly RuleTexts[]): string {
  const unused = rules.filter(rule => !rule.matched).length;
  const count = countText(rules.length, 'layout rule');
  return unused ? `${count}, ${unused} ${unused === 1 ? 'matches' : 'match'} nothing` : count;
}
