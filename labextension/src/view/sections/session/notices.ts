/** Notices that a person should read now, and what processes disagree on. */

import { processesText } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Disagreement, Notice, Snapshot } from '../../model/snapshot';
import { element, KeyedChildren, setShown } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

/** Return a text whose magics, and parts in backquotes, are shown as code. */
function withCode(text: string): (string | HTMLElement)[] {
  return text.split(/(`[^`]+`|%{1,2}\w+(?: --?[\w-]+)*)/).map((part, i) => {
    return i % 2 ? element('code', '', {}, part.replaceAll('`', '')) : part;
  });
}

function noticeNode({ level, title, text }: Notice): HTMLElement {
  const sign = element('span', 'nbdist-notice-sign', { 'aria-hidden': 'true' }, '!');
  const word = element('span', 'nbdist-hidden', {}, level === 'bad' ? 'Problem: ' : 'Note: ');
  const words = element('span', 'nbdist-notice-text', {}, word);
  words.append(element('b', '', {}, ...withCode(title)), ' ', ...withCode(text));
  return element('div', 'nbdist-notice', { 'data-level': level }, sign, words);
}

function disagreementNode({ about, versions }: Disagreement): HTMLElement {
  const sign = element('span', 'nbdist-notice-sign', { 'aria-hidden': 'true' }, '≠');
  const words = element('span', 'nbdist-notice-text');
  words.append(element('b', '', {}, `Processes disagree on ${about}`));
  const list = element('ul', 'nbdist-versions');
  for (const { processes, value } of versions) {
    const who = element('span', 'nbdist-soft', {}, processesText(processes));
    list.append(element('li', '', {}, who, ' ', element('code', '', {}, value)));
  }
  words.append(list);
  return element('div', 'nbdist-notice', { 'data-level': 'warn' }, sign, words);
}

/** The view's own notice for a session that is out of step, if no other notice says why. */
const OUT_OF_STEP: Notice = {
  level: 'bad',
  title: 'The processes are out of step.',
  text: 'Not all of them have run the same collectives, so the next one may wait for ever.',
};

function noticesOf(snapshot: Snapshot): readonly Notice[] {
  const explained = snapshot.notices.some(notice => notice.level === 'bad');
  return snapshot.state === 'out of step' && !explained
    ? [OUT_OF_STEP, ...snapshot.notices]
    : snapshot.notices;
}

type Item =
  | { readonly kind: 'notice'; readonly notice: Notice }
  | { readonly kind: 'disagreement'; readonly disagreement: Disagreement };

const itemNode = (item: Item): HTMLElement =>
  item.kind === 'notice' ? noticeNode(item.notice) : disagreementNode(item.disagreement);

export class Notices implements Section {
  readonly node = element('section', 'nbdist-notices', { 'aria-label': 'Notices' });
  private readonly changed = changeOf();
  // The key is the whole content, so a node never changes once made.
  private readonly items = new KeyedChildren<Item>(this.node, itemNode, () => undefined);

  draw(scene: Scene): void {
    const { notices, disagreements, state } = scene.snapshot;
    if (!this.changed(notices, disagreements, state)) return;
    const items: Item[] = [
      ...noticesOf(scene.snapshot).map(notice => ({ kind: 'notice' as const, notice })),
      ...disagreements.map(disagreement => ({ kind: 'disagreement' as const, disagreement })),
    ];
    this.items.draw(items, item => JSON.stringify(item));
    setShown(this.node, items.length > 0);
  }
}
