/** The distribution or strategy that is set now; if processes differ, each version. */

import { axesParts, type SpecPart } from '../../model/array_text';
import { countText, meshText, processesText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Distribution, Mesh, Model } from '../../model/snapshot';
import {
  breakable,
  changeOf,
  elementsIn,
  KeyedChildren,
  setAttributes,
  setShown,
  specNode,
  table,
  type Dispatch,
  type Section,
} from '../parts/parts';

const h = elementsIn('session');

/** A label and its value; the value is shown as code. */
type Fact = readonly [label: string, value: string];

/** A rule of a layout map, and whether it matched a variable of any model. */
interface RuleTexts {
  readonly pattern: string;
  readonly axes: readonly SpecPart[];
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
    axes: axesParts(axes),
    matched: !theirs.length || theirs.some(model => !model.unmatched.includes(pattern)),
  }));
}

/** Return whether some process has both; an empty list of processes means all. */
const shareProcesses = (one: Distribution, { processes }: Model): boolean =>
  !one.processes.length || !processes.length || processes.some(id => one.processes.includes(id));

/** Return the title of the rules: `3 layout rules, 1 matches nothing`. */
export function rulesTitle(rules: readonly RuleTexts[]): string {
  const unused = rules.filter(rule => !rule.matched).length;
  const count = countText(rules.length, 'layout rule');
  return unused ? `${count}, ${unused} ${unused === 1 ? 'matches' : 'match'} nothing` : count;
}

/** Most rules that are shown without a click. */
const OPEN_RULES = 6;

const ruleRow = ({ pattern, axes, matched }: RuleTexts): HTMLElement =>
  h(
    'tr',
    { 'data-unused': !matched },
    h('th+code', { scope: 'row' }, breakable(pattern)),
    h('td.axes', specNode(axes)),
    h('td', matched ? '' : 'matches nothing'),
  );

function rulesNode(rules: readonly RuleTexts[]): HTMLElement {
  const shown = table(['variables', 'asks for', 'remark'], h('tbody', rules.map(ruleRow)));
  setAttributes(shown, { 'aria-label': 'Layout rules' });
  const open = rules.length <= OPEN_RULES;
  const summary = h('summary', rulesTitle(rules));
  return h('details.rules+opened', { open }, summary, h('div.rules-scroll+scroll', shown));
}

/** Everything that is shown about one version. */
type Version = Omit<Distribution, 'rules'> & {
  readonly facts: readonly Fact[];
  readonly rules: readonly RuleTexts[];
  readonly differs: boolean;
  /** Whether the mesh of the version is the one that is drawn. */
  readonly drawn: boolean;
};

function versionsOf({ snapshot, meshes, grid }: Scene): readonly Version[] {
  const differs = snapshot.disagreements.some(({ about }) => about === 'distribution');
  return snapshot.distributions.map(one => {
    const mesh = one.mesh !== null && meshes.has(one.mesh) ? one.mesh : null;
    const [facts, rules] = [factsOf(one, meshes), rulesOf(one, snapshot.models)];
    return { ...one, mesh, facts, rules, differs, drawn: mesh !== null && mesh === grid.id };
  });
}

/** One version; its key is all of it but `drawn`, so only that ever changes. */
class VersionNode {
  private readonly choose: HTMLButtonElement | null = null;
  readonly node: HTMLElement;

  constructor({ mesh, ...version }: Version, dispatch: Dispatch) {
    if (mesh !== null) {
      const attributes = { type: 'button', title: 'Show its mesh' };
      this.choose = h('button.kind+button', attributes, version.kind);
      this.choose.addEventListener('click', () => {
        dispatch({ type: 'mesh', id: mesh });
      });
    }
    const { noun, kind, processes, differs, facts, problem, rules } = version;
    const shownFacts = facts.map(([label, value]) => h('span', `${label} `, h('code', value)));
    this.node = h(
      'div.distribution',
      { 'data-differs': differs },
      h(
        'div.distribution-head+wrap',
        h('span+soft', noun),
        this.choose ?? h('b', kind),
        processes.length > 0 && h('span+badge', processesText(processes)),
        differs && h('span+warning', '≠ processes disagree'),
      ),
      facts.length > 0 && h('p.distribution-facts+wrap', shownFacts),
      problem && h('p+warning', problem),
      rules.length > 0 && rulesNode(rules),
    );
  }

  draw({ drawn }: Version): void {
    if (this.choose) setAttributes(this.choose, { 'aria-pressed': String(drawn) });
  }
}

export class Distributions implements Section {
  readonly node = h('section.distributions', { 'aria-label': 'Distribution' });
  private readonly changed = changeOf();
  private readonly versions: KeyedChildren<Version>;

  constructor(dispatch: Dispatch) {
    this.versions = new KeyedChildren(this.node, version => new VersionNode(version, dispatch));
  }

  draw(scene: Scene): void {
    const { distributions, disagreements, models } = scene.snapshot;
    if (!this.changed(distributions, disagreements, models, scene.meshes, scene.grid)) return;
    this.versions.draw(versionsOf(scene), version => JSON.stringify({ ...version, drawn: null }));
    setShown(this.node, distributions.length > 0);
  }
}
