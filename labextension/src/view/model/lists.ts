/** Lists: grouped, measured, and numbered row by row. */

/** Return the items by key; groups, and the items of each, stay in their order. */
export function grouped<Key, Item>(
  items: Iterable<Item>,
  keyOf: (item: Item) => Key,
): Map<Key, Item[]> {
  const groups = new Map<Key, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** Return the largest number, 0 if there is none. */
export const largest = (numbers: readonly number[]): number =>
  numbers.reduce((a, b) => Math.max(a, b), 0);

export const product = (factors: readonly number[]): number => factors.reduce((a, b) => a * b, 1);

/** Return the place of item `number` along each dimension of a row-major grid. */
export function placeIn(sizes: readonly number[], number: number): number[] {
  const place = [...sizes];
  let rest = number;
  for (let d = sizes.length - 1; d >= 0; d--) {
    const size = sizes[d] ?? 1;
    place[d] = rest % size;
    rest = Math.floor(rest / size);
  }
  return place;
}
