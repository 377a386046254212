/**
 * Exchange of data between devices in the chosen collectives: which devices take part, and with
 * which partners.
 */

import { grouped } from './lists';
import type { Grouping, Mesh, ShownCollective, ShownProgram } from './snapshot';

/**
 * Groups of devices that are coloured alike: devices that hold one piece of an array, or one group
 * of a collective.
 */
export interface Shares {
  /** The number of each device's group; devices without a group are missing. */
  readonly of: ReadonlyMap<string, number>;
  readonly groups: readonly { readonly devices: readonly string[] }[];
}

/** The devices that a device sends to and receives from; in a group, each does both with all others. */
export interface Partners {
  readonly to: readonly string[];
  readonly from: readonly string[];
}

/** The exchange of the chosen collectives. `shares` has no groups if the collectives have different groups. */
export interface Exchange {
  readonly collectives: readonly ShownCollective[];
  readonly shares: Shares;
  /** Whether the groups are transfers from one device to another. */
  readonly pairs: boolean;
  partnersOf(key: string): Partners;
}

/** Return the collectives of a line of code, by their places in the program. */
export function collectivesOf(program: ShownProgram, line: string): readonly number[] {
  return program.collectives.flatMap((one, i) => (line && one.line === line ? [i] : []));
}

/** Return groups of devices that transfers connect, directly or through others, in the order of the mesh. */
function connected(groups: readonly (readonly number[])[]): number[][] {
  const leader = new Map<number, number>();
  const find = (place: number): number => {
    const up = leader.get(place) ?? place;
    if (up === place) return place;
    const top = find(up);
    leader.set(place, top);
    return top;
  };
  for (const group of groups) {
    const [first = 0] = group;
    for (const place of group) {
      const [a, b] = [find(first), find(place)];
      leader.set(Math.max(a, b), Math.min(a, b));
    }
  }
  const places = [...new Set(groups.flat())].sort((a, b) => a - b);
  return [...grouped(places, find).values()];
}

function sharesOf({ groups, pairs }: Grouping, devices: readonly string[]): Shares {
  const places = pairs ? connected(groups) : groups;
  const named = places.map(group => ({ devices: group.map(place => devices[place] ?? '') }));
  const of = new Map<string, number>();
  named.forEach((group, number) => {
    for (const key of group.devices) of.set(key, number);
  });
  return { of, groups: named };
}

/** Return the partners of each device in one grouping. */
function partnersIn({ groups, pairs }: Grouping, devices: readonly string[]): Map<string, Sets> {
  const found = new Map<string, Sets>();
  const at = (key: string): Sets => {
    let sets = found.get(key);
    if (!sets) found.set(key, (sets = { to: [], from: [] }));
    return sets;
  };
  for (const group of groups) {
    const keys = group.map(place => devices[place] ?? '');
    if (pairs) {
      const [source = '', target = ''] = keys;
      // A transfer from a device to itself moves nothing.
      if (source === target) continue;
      at(source).to.push(target);
      at(target).from.push(source);
    } else for (const key of keys) found.set(key, { to: keys, from: keys });
  }
  return found;
}

interface Sets {
  readonly to: string[];
  readonly from: string[];
}

const NOBODY: Shares = { of: new Map(), groups: [] };

/** Return the exchange of chosen collectives of a program; null if none is chosen or its devices are not known. */
export function exchangeOf(
  program: ShownProgram | null,
  meshes: ReadonlyMap<string, Mesh>,
  chosen: readonly number[],
): Exchange | null {
  const devices = program?.mesh ? meshes.get(program.mesh)?.devices : undefined;
  if (!program || !devices || chosen.length === 0) return null;
  const collectives = chosen.flatMap(i => program.collectives[i] ?? []);
  const numbers = new Set(collectives.map(one => one.grouping));
  const groupings = [...numbers].flatMap(i => (i === null ? [] : (program.groupings[i] ?? [])));
  const [first] = groupings;
  if (!first) return null;
  const partners = groupings.map(grouping => partnersIn(grouping, devices));
  const others = (key: string, side: keyof Partners): readonly string[] => {
    const all = new Set(partners.flatMap(one => one.get(key)?.[side] ?? []));
    all.delete(key);
    return [...all];
  };
  return {
    collectives,
    shares: numbers.size === 1 ? sharesOf(first, devices) : NOBODY,
    pairs: groupings.every(grouping => grouping.pairs),
    partnersOf: key => ({ to: others(key, 'to'), from: others(key, 'from') }),
  };
}
