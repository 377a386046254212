/** Texts about one branch of a tree. */

import type { ArrayTexts } from './array_text';
import { fullest, leavesOf, type Branch } from './branches';
import { bytesText, countText } from './format';
import type { Array as NamedArray, Mesh } from './snapshot';
import type { BranchRow } from './tree_rows';

/** The texts of one row. */
export interface BranchTexts {
  /** The whole expression, `model.blocks[0–11]`. */
  readonly path: string;
  /** The number of arrays: `12 alike, 3 arrays each`. */
  readonly about: string;
  /** Most characters that the bytes of any branch take. */
  readonly mostBytes: number;
  /** Return the bytes that the fullest device needs; computed only for rows that are drawn. */
  bytes(): string;
  /** Return the bytes of one whole copy of each array. */
  copy(): string;
  /** Return how many arrays of the branch are large and whole everywhere. */
  whole(): number;
}

const MOST_BYTES = '1023 GB'.length;

function pathOf({ path, name, alike }: Branch): string {
  const [first] = alike;
  return first ? path.slice(0, -first.name.length) + name : path;
}

function aboutOf({ count, alike }: Branch): string {
  if (alike.length === 0) return countText(count, 'array');
  return `${alike.length} alike, ${countText(count / alike.length, 'array')} each`;
}

/**
 * Return a function from rows to their texts, which computes each text once.
 *
 * If arrays were `omitted` from the snapshot, all totals are lower bounds.
 */
export function branchTextsMaker(
  meshes: ReadonlyMap<string, Mesh>,
  textOf: ReadonlyMap<NamedArray, ArrayTexts>,
  omitted: number,
): (row: BranchRow) => BranchTexts {
  const made = new Map<Branch, BranchTexts>();
  const least = omitted ? '≥ ' : '';
  return ({ branch }) => {
    const known = made.get(branch);
    if (known) return known;
    const texts: BranchTexts = {
      path: pathOf(branch),
      about: aboutOf(branch),
      mostBytes: MOST_BYTES + least.length,
      bytes: once(() => {
        const bytes = fullest(leavesOf(branch), meshes);
        return bytes === null ? '?' : least + bytesText(bytes);
      }),
      copy: once(
        () => least + bytesText(leavesOf(branch).reduce((sum, { nbytes }) => sum + nbytes, 0)),
      ),
      whole: once(() => leavesOf(branch).filter(array => textOf.get(array)?.whole).length),
    };
    made.set(branch, texts);
    return texts;
  };
}

function once<Value>(compute: () => Value): () => Value {
  let made: { readonly value: Value } | null = null;
  return () => (made ??= { value: compute() }).value;
}
