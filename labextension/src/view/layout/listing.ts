/** Rows of the list of arrays, with all their texts, computed before anything is drawn. */

import { textsOf, type ArrayTexts } from '../model/array_text';
import { branchTextsMaker, type BranchTexts } from '../model/branch_text';
import { forest } from '../model/branches';
import { findArrays } from '../model/find';
import { remember } from '../model/memo';
import { OpenBranches, shownIn, type BranchStates } from '../model/open_branches';
import type { Scene } from '../model/scene';
import { shortenAll } from '../model/shorten';
import type { Array as NamedArray, Mesh } from '../model/snapshot';
import { flatRows, treeRows, type BranchRow, type ListRow } from '../model/tree_rows';
import { listForm, type ListForm } from './list_form';

/** Width, in characters, of the badge of an array that is whole everywhere. */
const BADGE = 3;

export interface Listing {
  readonly rows: readonly ListRow[];
  /** True for the rows of trees, false for the results of a search. */
  readonly tree: boolean;
  readonly form: ListForm;
  readonly textsOf: (array: NamedArray) => ArrayTexts | undefined;
  readonly branchTexts: (row: BranchRow) => BranchTexts;
  /** The name as it is written, shortened if it is too long. */
  readonly nameOf: (row: ListRow) => string;
}

type TextOf = ReadonlyMap<NamedArray, ArrayTexts>;

const besideOf = (texts: ArrayTexts | undefined): number =>
  (texts?.who ? texts.who.length + 2 : 0) + (texts?.whole ? BADGE : 0);

function formOf(
  rows: readonly ListRow[],
  textOf: TextOf,
  branchTexts: Listing['branchTexts'],
  width: number,
  character: number,
): ListForm {
  const badge = [...textOf.values()].some(texts => texts.whole) ? BADGE : 0;
  const names = rows.map(row => ({
    level: row.level,
    length: row.name.length,
    beside: row.kind === 'array' ? besideOf(textOf.get(row.array)) : badge,
  }));
  const branches = rows.flatMap(row => (row.kind === 'branch' ? [branchTexts(row)] : []));
  const about = branches.map(texts => texts.about.length);
  const bytes = Math.max(0, ...branches.slice(0, 1).map(texts => texts.mostBytes));
  return listForm({ texts: [...textOf.values()], names, about, bytes }, width, character);
}

/** Shorten the names of each level by themselves: every `.kernel` of one level is written alike. */
function namesOf(rows: readonly ListRow[], form: ListForm): ReadonlyMap<string, string>[] {
  const levels: (Set<string> | undefined)[] = [];
  for (const { level, name } of rows) (levels[level] ??= new Set()).add(name);
  return [...levels].map((names, level) => shortenAll([...(names ?? [])], form.nameLength(level)));
}

/** Maker of listings, which reuses every unchanged part of the listing before. */
export class Listings {
  readonly open = new OpenBranches();
  readonly roots = remember(forest);
  private readonly found = remember(findArrays);
  private readonly texts = remember(
    (arrays: readonly NamedArray[], meshes: ReadonlyMap<string, Mesh>): TextOf =>
      new Map(arrays.map(array => [array, textsOf(array, meshes)])),
  );
  private readonly branchTexts = remember(branchTextsMaker);
  private readonly flat = remember(flatRows);
  private readonly trees = remember((arrays: readonly NamedArray[], states: BranchStates) =>
    treeRows(this.roots(arrays), shownIn(states)),
  );
  // Widths and names are computed from all possible rows, so that neither a search nor opening a
  // branch moves them.
  private readonly all = {
    tree: remember((arrays: readonly NamedArray[]) =>
      treeRows(this.roots(arrays), ({ alike }) => (alike.length ? 'each' : 'open')),
    ),
    flat: remember(flatRows),
  };
  private readonly forms = { tree: remember(formOf), flat: remember(formOf) };
  private readonly names = { tree: remember(namesOf), flat: remember(namesOf) };

  of({ snapshot, meshes, state }: Scene, width: number, character: number): Listing {
    const { arrays, arrays_omitted: omitted } = snapshot;
    const found = this.found(arrays, state.query);
    const kind = found === arrays ? 'tree' : 'flat';
    this.open.settle(this.roots(arrays));
    const textOf = this.texts(arrays, meshes);
    const branchTexts = this.branchTexts(meshes, textOf, omitted);
    const all = this.all[kind](arrays);
    const form = this.forms[kind](all, textOf, branchTexts, width, character);
    const names = this.names[kind](all, form);
    return {
      rows: kind === 'tree' ? this.trees(arrays, this.open.states) : this.flat(found),
      tree: kind === 'tree',
      form,
      textsOf: array => textOf.get(array),
      branchTexts,
      nameOf: ({ level, name }) => names[level]?.get(name) ?? name,
    };
  }
}
