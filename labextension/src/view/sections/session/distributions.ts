/** The distribution or strategy that is set now; if processes differ, each version. */

import { entryParts } from '../../model/array_text';
import {
  factsOf,
  rulesOf,
  rulesTitle,
  type Fact,
  type RuleTexts,
} from '../../model/distribution_text';
import { processesText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Snapshot } from '../../model/snapshot';
import { specNode } from '../lists/array_row';
import { breakable, element, KeyedChildren, setAttributes, setShown } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

/** Most rules that are shown without a click. */
const OPEN_RULES = 6;

/** Everything that is shown about one version. */
interface Version {
  readonly kind: string;
  readonly noun: string;
  readonly mesh: string | null;
  readonly facts: readonly Fact[];
  readonly rules: readonly RuleTexts[];
  readonly processes: readonly number[];
  readonly problem: string | null;
  readonly differs: boolean;
}

function versionsOf({ snapshot, meshes }: Scene): readonly Version[] {
  const differs = disagrees(snapshot);
  return snapshot.distributions.map(one => ({
    kind: one.kind,
    noun: one.noun,
    mesh: one.mesh !== null && meshes.has(one.mesh) ? one.mesh : null,
    facts: factsOf(one, meshes),
    rules: rulesOf(one, snapshot.models),
    processes: one.processes,
    problem: one.problem,
    differs,
  }));
}

const disagrees = ({ disagreements }: Snapshot): boolean =>
  disagreements.some(({ about }) => about === 'distribution');

function ruleRow({ pattern, axes, matched }: RuleTexts): HTMLElement {
  const name = element('th', 'nbdist-code', { scope: 'row' }, ...breakable(pattern));
  const spec = element('td', '', {}, specNode(entryParts(axes)));
  const state = element('td', '', {}, matched ? '' : 'matches nothing');
  return element('tr', '', { 'data-unused': !matched }, name, spec, state);
}

function rulesNode(rules: readonly RuleTexts[]): HTMLElement {
  const head = ['variables', 'axes', ''].map(text => element('th', '', { scope: 'col' }, text));
  const table = element('table', '', { 'aria-label': 'Layout rules' });
  table.append(
    element('thead', '', {}, element('tr', '', {}, ...head)),
    element('tbody', '', {}, ...rules.map(ruleRow)),
  );
  const summary = element('summary', '', {}, rulesTitle(rules));
  const scroll = element('div', 'nbdist-table-scroll', {}, table);
  const open = rules.length <= OPEN_RULES;
  return element('details', 'nbdist-rules', { open }, summary, scroll);
}

export class Distributions implements Section {
  readonly node = element('section', 'nbdist-distributions', { 'aria-label': 'Distribution' });
  private readonly changed = changeOf();
  // The key is the whole content. So a node changes only in this: whether its mesh is the one that is drawn.
  private readonly versions = new KeyedChildren<Version>(
    this.node,
    version => this.make(version),
    (node, version) => {
      const button = node.querySelector('button');
      const on = version.mesh !== null && version.mesh === this.drawn;
      if (button) setAttributes(button, { 'aria-pressed': on ? 'true' : 'false' });
    },
  );
  private drawn: string | null = null;

  constructor(private readonly dispatch: Dispatch) {}

  draw(scene: Scene): void {
    const { distributions, disagreements, models } = scene.snapshot;
    if (!this.changed(distributions, disagreements, models, scene.meshes, scene.grid)) return;
    this.drawn = scene.grid.id;
    this.versions.draw(versionsOf(scene), version => JSON.stringify(version));
    setShown(this.node, distributions.length > 0);
  }

  private make(version: Version): HTMLElement {
    const node = element('div', 'nbdist-distribution', { 'data-differs': version.differs });
    node.append(this.heading(version));
    const facts = version.facts.map(([label, value]) =>
      element('span', '', {}, `${label} `, element('code', '', {}, value)),
    );
    if (facts.length) node.append(element('p', 'nbdist-distribution-facts', {}, ...facts));
    if (version.problem) node.append(element('p', 'nbdist-warning', {}, version.problem));
    if (version.rules.length) node.append(rulesNode(version.rules));
    return node;
  }

  private heading({ kind, noun, mesh, processes, differs }: Version): HTMLElement {
    const line = element('div', 'nbdist-distribution-head');
    const word = element('span', 'nbdist-soft', {}, noun);
    if (mesh === null) line.append(word, element('b', '', {}, kind));
    else {
      const title = 'Show its mesh';
      const button = element('button', 'nbdist-tab', { type: 'button', title }, kind);
      button.addEventListener('click', () => {
        this.dispatch({ type: 'mesh', id: mesh });
      });
      line.append(word, button);
    }
    if (processes.length) line.append(element('span', 'nbdist-only', {}, processesText(processes)));
    if (differs) line.append(element('span', 'nbdist-warning', {}, '≠ processes disagree'));
    return line;
  }
}
