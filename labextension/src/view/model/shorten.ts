/** Long names shortened in the middle, so that no two of a list look alike. */

import { grouped, largest } from './lists';

const CUT = '…';

/** Keep `head` characters of the start, and fill up to `length` from the end. */
function cutOnce(name: string, length: number, head: number): string {
  const tail = length - head - CUT.length;
  return name.slice(0, head) + CUT + (tail > 0 ? name.slice(-tail) : '');
}

/** Keep `window` characters from `from` on, and as much of the start and the end as fits. */
function cutTwice(name: string, length: number, from: number, window: number): string {
  const rest = Math.max(0, length - window - 2 * CUT.length);
  const head = Math.min(Math.ceil(rest / 3), Math.max(0, from));
  const tail = rest - head;
  const end = tail > 0 ? name.slice(-tail) : '';
  return name.slice(0, head) + CUT + name.slice(from, from + window) + CUT + end;
}

/** Return the parts of a name: `params`, `['dense']`, `.`, `kernel`. */
const tokensOf = (name: string): string[] => name.match(/\[[^\]]*\]|\.|[^.[\]]+|./g) ?? [];

/**
 * Leave out inner parts that all names of the same build share, the longest first, until the name
 * fits.
 *
 * Names of the same build have equally many parts. Of `params['encoder']['layers_0'].kernel` in a
 * list of layers, `['encoder']` is left out first.
 */
function withoutShared(
  tokens: readonly string[],
  shared: readonly boolean[],
  length: number,
): string {
  const left = tokens.map(() => true);
  const written = (): string =>
    tokens.map((token, i) => (left[i] ? token : left[i - 1] ? CUT : '')).join('');
  const candidates = tokens
    .map((token, i) => ({ i, size: token.length }))
    .filter(({ i, size }) => shared[i] && size > 1 && i > 0 && i < tokens.length - 1)
    .sort((a, b) => b.size - a.size);
  for (const { i } of candidates) {
    if (written().length <= length) break;
    left[i] = false;
  }
  return written();
}

/** Return each name; a long one without the parts it shares with all names that have as many parts. */
function withoutSharedParts(names: readonly string[], length: number): Map<string, string> {
  const texts = new Map<string, string>();
  const builds = grouped(names.map(tokensOf), tokens => tokens.length);
  for (const members of builds.values()) {
    const shared = (members[0] ?? []).map((token, i) => members.every(other => other[i] === token));
    for (const tokens of members) {
      const name = tokens.join('');
      const fits = name.length <= length || members.length === 1;
      texts.set(name, fits ? name : withoutShared(tokens, shared, length));
    }
  }
  return texts;
}

/** Yield the ways worth trying to write the names of one group within `length`, the nicest first. */
function* waysToCut(names: readonly string[], length: number): Generator<(name: string) => string> {
  const third = Math.ceil(length / 3);
  for (let shift = 0; shift < length; shift++) {
    const tried = shift % 2 ? third - (shift + 1) / 2 : third + shift / 2;
    if (tried >= 0 && tried < length) yield name => cutOnce(name, length, tried);
  }
  const window = Math.floor(length / 2) - CUT.length;
  if (window < 1) return;
  const longest = largest(names.map(name => name.length));
  // Begins at the first character in which two of the names differ.
  for (let from = firstDifference(names); from < longest; from += Math.max(1, window >> 1)) {
    yield name => cutTwice(name, length, from, window);
  }
}

/** Return the first position at which not all names have the same character. */
function firstDifference(names: readonly string[]): number {
  const first = names[0] ?? '';
  for (let i = 0; i < first.length; i++) if (names.some(name => name[i] !== first[i])) return i;
  return first.length;
}

/** Return the groups of names that were written alike. */
function groupsByText(texts: ReadonlyMap<string, string>): string[][] {
  const groups = [...grouped(texts, ([, text]) => text).values()];
  return groups.filter(group => group.length > 1).map(group => group.map(([name]) => name));
}

/**
 * Write each name within `length` characters.
 *
 * Returns one text for each name; different names never share one. Names that nothing else tells
 * apart end in a number. `length` below 6 is taken as 6.
 */
export function shortenAll(names: readonly string[], length: number): Map<string, string> {
  const room = Math.max(6, length);
  const texts = new Map<string, string>();
  for (const [name, text] of withoutSharedParts([...new Set(names)], room)) {
    texts.set(name, text.length <= room ? text : cutOnce(name, room, Math.ceil(room / 3)));
  }
  for (const group of groupsByText(texts)) rewrite(group, room, texts);
  for (const group of groupsByText(texts)) number(group, room, texts);
  return texts;
}

/** Write one group again, in the first way that tells most of its names apart. */
function rewrite(group: readonly string[], room: number, texts: Map<string, string>): void {
  let most = 1;
  let best: ((name: string) => string) | null = null;
  for (const way of waysToCut(group, room)) {
    const distinct = new Set(group.map(way)).size;
    if (distinct > most) [most, best] = [distinct, way];
    if (distinct === group.length) break;
  }
  if (!best) return;
  const taken = new Set(
    [...texts].filter(([name]) => !group.includes(name)).map(([, text]) => text),
  );
  for (const name of group) {
    const text = best(name);
    if (!taken.has(text)) texts.set(name, text);
  }
}

/** Write a number after names of one group, as the last resort: `params…kernel~2`. */
function number(group: readonly string[], room: number, texts: Map<string, string>): void {
  const taken = new Set(texts.values());
  for (const name of group.slice(1)) {
    for (let i = 2; ; i++) {
      const mark = `~${i}`;
      const text = cutOnce(name, room - mark.length, Math.ceil(room / 3) - 1) + mark;
      if (taken.has(text)) continue;
      taken.add(text);
      texts.set(name, text);
      break;
    }
  }
}
