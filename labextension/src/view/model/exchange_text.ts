/** Texts about the exchange of data: who exchanges with whom. */

import { nameOf } from './device_text';
import { bytesText, countText } from './format';
import type { Scene } from './scene';
import type { ShownCollective } from './snapshot';

/** Most devices that are listed by name; the rest are counted. */
const MOST_NAMED = 6;

/** Return a collective in words: `all-reduce along model, 32 KB a device, 6 times, forward, train.py:9`. */
export function collectiveText(one: ShownCollective): string {
  return [
    `${one.kind} ${one.along.startsWith('devices ') ? 'among' : 'along'} ${one.along}`,
    `${bytesText(one.bytes)} a device`,
    one.times === '?' ? 'an unknown number of times' : timesText(one.times),
    one.direction,
    one.line,
    one.resharding ? 'put in by the compiler' : '',
  ]
    .filter(Boolean)
    .join(', ');
}

const timesText = (times: string): string => (times === '1' ? 'once' : `${times} times`);

/** Return the chosen collective, `all-reduce along model`, or how many are chosen and of which line. */
export function chosenText({ exchange }: Scene): string {
  const [first, ...more] = exchange?.collectives ?? [];
  if (!first) return '';
  if (!more.length) return `${first.kind} along ${first.along}`;
  return `${countText(more.length + 1, 'collective')} of ${first.line || 'several lines'}`;
}

/** Return the groups in words: `2 groups of 4 devices`; for transfers `1 chain or ring`. */
export function groupsText({ exchange }: Scene): string {
  const groups = exchange?.shares.groups ?? [];
  if (!exchange || !groups.length) return '';
  const sizes = new Set(groups.map(group => group.devices.length));
  const [size = 0] = sizes;
  if (exchange.pairs) return countText(groups.length, 'chain or ring', 'chains or rings');
  const of = sizes.size === 1 ? ` of ${countText(size, 'device')}` : '';
  return `${countText(groups.length, 'group')}${of}`;
}

function namesText(scene: Scene, keys: readonly string[]): string {
  const named = keys.slice(0, MOST_NAMED).map(key => nameOf(scene, key));
  if (keys.length > MOST_NAMED) named.push(`${keys.length - MOST_NAMED} more`);
  return named.join(', ');
}

/** Return the devices that a device exchanges data with, as rows of a term and names. */
export function partnersRows(scene: Scene, key: string): (readonly [string, string])[] {
  const { exchange } = scene;
  if (!exchange) return [];
  const { to, from } = exchange.partnersOf(key);
  if (!exchange.pairs) {
    return [['exchanges', to.length ? `with ${namesText(scene, to)}` : 'with no other device']];
  }
  return [
    ['sends to', to.length ? namesText(scene, to) : 'no other device'],
    ['receives', from.length ? `from ${namesText(scene, from)}` : 'from no other device'],
  ];
}

/** Return what a card says about a device: its group, or the devices it sends to. */
export function shareText(scene: Scene, key: string): string {
  const { exchange } = scene;
  if (!exchange) return '';
  if (exchange.pairs) {
    const { to } = exchange.partnersOf(key);
    return to.length ? `→ ${namesText(scene, to)}` : 'sends nothing';
  }
  const number = exchange.shares.of.get(key);
  return number === undefined ? '' : `group ${number}`;
}
