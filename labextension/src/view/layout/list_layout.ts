/** Layout of the lists of arrays and of variables: one line for each row if all columns fit, else several. */

import {
  findArrays,
  sorted,
  specLength,
  specWords,
  textsOf,
  wordLengths,
  type ArrayTexts,
  type Order,
} from '../model/array_text';
import { forest } from '../model/branches';
import { LONG, NAME_BREAKS } from '../model/format';
import { largest } from '../model/lists';
import { saysAsked, type VariableTexts } from '../model/model_text';
import { remember, type Scene } from '../model/scene';
import type { Array as NamedArray, Mesh } from '../model/snapshot';
import {
  branchTextsMaker,
  flatRows,
  OpenBranches,
  shownIn,
  treeRows,
  type BranchRow,
  type BranchStates,
  type BranchTexts,
  type ListRow,
} from '../model/tree_rows';

/** Sizes in pixels of the theme, the same as in the style sheet. */
const PADDING = 24;
const GAP = 10;
const VARIABLES_GAP = 12;
const LINE = 19;
const ROW_PADDING = 9;
const ONE_LINE = LINE + ROW_PADDING + 1;
/** Indent of one level of a tree, and the most for all levels together. */
const INDENT = 12;
const MOST_INDENT = 96;
/** Width of the arrow before the name of a branch. */
const ARROW = 14;
/** The least widths of the columns after the name of an array, for their headings. */
const HEADINGS = [38, 38, 60, 48];
/** The least widths of the columns after the path of a variable. */
const VARIABLE_HEADINGS = [44, 44, 44, 56, 44, 60];
/** Least width of the column of names, in characters; with less room, rows take several lines. */
const LEAST_NAME = 14;

/**
 * Lengths from which the widths are computed: those of all possible rows, so that nothing moves
 * when branches open.
 */
export interface ListContents {
  readonly texts: readonly ArrayTexts[];
  /**
   * Level of each row, from 1; the characters of its name, of the processes beside it, and of its
   * badge, which stands beside the name only in rows of one line.
   */
  readonly names: readonly {
    readonly level: number;
    readonly length: number;
    readonly who: number;
    readonly badge: number;
  }[];
  /** The characters of the text about each branch, and the most characters that the bytes of a branch take. */
  readonly about: readonly number[];
  readonly bytes: number;
}

export interface ListForm {
  readonly kind: 'line' | 'stacked';
  /** Widths of the columns after the name; none if rows take several lines. */
  readonly columns: readonly number[];
  /** Return how many pixels are left free before a name. */
  indent(level: number, kind: 'array' | 'branch'): number;
  /** Return the height in pixels of the row of an array with this name. */
  height(name: string, texts: ArrayTexts, level: number): number;
  /** Return whether the text about a branch stands beside its name. */
  beside(name: string, about: number, level: number): boolean;
  branchHeight(name: string, about: number, level: number): number;
}

/** The lines in which a long text scrolls; as in `page.css`. */
const LONG_LINES = 8;

/** Return how many lines words of the given lengths take, at `perLine` characters a line. */
export function linesFor(words: readonly number[], perLine: number): number {
  let [lines, used] = [1, 0];
  for (const word of words) {
    const needed = used ? used + 1 + word : word;
    if (needed <= perLine) used = needed;
    else {
      // A name that must be broken inside its box takes one line more than its characters suggest.
      // What stands before and after its box has lines of its own then.
      lines += (used ? 1 : 0) + (word > perLine ? 1 + Math.ceil(word / perLine) : 0);
      used = Math.min(word, perLine);
    }
  }
  return lines;
}

/**
 * Return how many lines a name takes at `perLine` characters a line; it breaks after its dots,
 * brackets and underscores, and anywhere in a part that is longer than a line. A long one scrolls.
 */
export function linesOfName(name: string, perLine: number): number {
  let [lines, used] = [1, 0];
  for (const { length } of name.split(NAME_BREAKS)) {
    if (used + length <= perLine) used += length;
    else {
      lines += (used ? 1 : 0) + Math.max(0, Math.ceil(length / perLine) - 1);
      used = length > perLine ? length % perLine || perLine : length;
    }
  }
  return name.length > LONG ? Math.min(lines, LONG_LINES) : lines;
}

/** Return a function for the pixels before a name: names of one level are aligned, with or without an arrow. */
const indenter =
  (tree: boolean, most: number): ListForm['indent'] =>
  (level, kind) =>
    Math.min(INDENT * (level - 1), most) + (tree && kind === 'array' ? ARROW : 0);

/**
 * Choose the form for a list `width` pixels wide, with `character` pixels a character.
 *
 * Each row takes one line if the longest name fits beside the other columns.
 */
export function listForm(contents: ListContents, width: number, character: number): ListForm {
  const { texts, names, about } = contents;
  const lengths = [
    largest(texts.map(t => t.type.length)),
    largest(texts.map(t => specLength(t.spec))),
    largest([contents.bytes, ...texts.map(t => t.bytes.length)]),
    largest(texts.map(t => t.replicas.length)),
  ];
  const columns = lengths.map((length, i) =>
    Math.max(HEADINGS[i] ?? 0, Math.ceil(length * character) + 2),
  );
  const [type = 0, spec = 0] = columns;
  // The text about a branch takes the place of type and spec.
  const said = Math.ceil(largest(about) * character) + 2;
  columns[1] = Math.max(spec, about.length ? said - type - GAP : 0);
  const others = columns.reduce((a, b) => a + b + GAP, 0);
  const room = width - PADDING - others;
  const indent = indenter(about.length > 0, MOST_INDENT);
  const whole = largest(
    names.map(n => indent(n.level, 'array') + (n.length + n.who + n.badge) * character),
  );
  if (room < Math.max(LEAST_NAME * character, whole)) return stacked(contents, width, character);
  return {
    kind: 'line',
    columns,
    indent,
    height: () => ONE_LINE,
    beside: () => false,
    branchHeight: () => ONE_LINE,
  };
}

function stacked(contents: ListContents, width: number, character: number): ListForm {
  const { texts, names, about } = contents;
  const perLine = Math.max(12, Math.floor((width - PADDING) / character));
  const bytes = largest([contents.bytes, ...texts.map(t => t.bytes.length)]);
  const room = perLine - bytes - largest(names.map(n => n.who)) - 2;
  const most = Math.min(MOST_INDENT, Math.floor((room * character) / 3));
  const indent = indenter(about.length > 0, most);
  const taken = (level: number): number => Math.ceil(indent(level, 'array') / character);
  const roomAt = (level: number): number => Math.max(4, room - taken(level));
  return {
    kind: 'stacked',
    columns: [],
    indent,
    height: (name, t, level) => {
      const words = linesFor(wordLengths(t), perLine - taken(level));
      const lines = linesOfName(name, roomAt(level)) + words;
      return ROW_PADDING + LINE * lines;
    },
    beside: (name, said, level) => name.length + said + 2 <= roomAt(level),
    branchHeight: (name, said, level) => {
      const beside = name.length + said + 2 <= roomAt(level);
      const below = beside ? 0 : Math.ceil(said / Math.max(4, perLine - taken(level) - 2));
      return ROW_PADDING + LINE * (linesOfName(name, roomAt(level)) + below);
    },
  };
}

export interface LayoutForm {
  readonly kind: 'line' | 'stacked';
  readonly columns: readonly number[];
  height(texts: VariableTexts): number;
}

/** Return a form with one line for each row if the longest texts fit in `width` pixels, else with several. */
export function layoutForm(
  texts: readonly VariableTexts[],
  width: number,
  character: number,
): LayoutForm {
  const lengths = [
    largest(texts.map(t => t.type.length)),
    largest(texts.map(t => t.group.length)),
    largest(texts.map(t => t.rule.length)),
    largest(texts.map(t => specLength(t.axes))),
    largest(texts.map(t => specLength(t.spec))),
    largest(texts.map(t => t.bytes.length)),
  ];
  const ruled = texts.some(t => t.rule);
  const columns = lengths.map((length, i) =>
    ruled || length ? Math.max(VARIABLE_HEADINGS[i] ?? 0, Math.ceil(length * character) + 4) : 0,
  );
  const others = columns.reduce((a, b) => a + b + VARIABLES_GAP, 0);
  const whole = largest(texts.map(t => t.path.length + 2));
  if (width - PADDING - others >= whole * character) {
    return { kind: 'line', columns, height: () => ONE_LINE };
  }
  const perLine = Math.max(12, Math.floor((width - PADDING) / character));
  return {
    kind: 'stacked',
    columns: [],
    height: t => {
      const name = linesOfName(t.path, Math.max(4, perLine - (lengths[5] ?? 0) - 5));
      const room = perLine - t.group.length - 2;
      return ROW_PADDING + LINE * (name + linesFor(stackedWords(t), room));
    },
  };
}

/** Return the lengths, in characters, of the parts below the path between which a line may break. */
function stackedWords(texts: VariableTexts): number[] {
  const lengths = [texts.type.length, ...specWords(texts.spec)];
  if (texts.matched) lengths.push('rule'.length);
  if (texts.rule) lengths.push(texts.rule.length);
  if (texts.axes.length && saysAsked(texts)) {
    lengths.push('asks for'.length, ...specWords(texts.axes));
  }
  return lengths;
}

/** Characters between a name and a badge beside it, edges included. */
const BADGE = 3;

export interface Listing {
  readonly rows: readonly ListRow[];
  /** True for the rows of trees, false for the results of a search. */
  readonly tree: boolean;
  readonly form: ListForm;
  readonly textsOf: (array: NamedArray) => ArrayTexts | undefined;
  readonly branchTexts: (row: BranchRow) => BranchTexts;
}

type TextOf = ReadonlyMap<NamedArray, ArrayTexts>;

const whoWidth = (texts: ArrayTexts | undefined): number => (texts?.who ? texts.who.length + 2 : 0);
const badgeWidth = (texts: ArrayTexts | undefined): number =>
  texts?.badge ? texts.badge.length + BADGE : 0;

function formOf(
  rows: readonly ListRow[],
  textOf: TextOf,
  branchTexts: Listing['branchTexts'],
  width: number,
  character: number,
): ListForm {
  const names = rows.map(row => {
    const texts = row.kind === 'array' ? textOf.get(row.array) : undefined;
    const { level, name } = row;
    return { level, length: name.length, who: whoWidth(texts), badge: badgeWidth(texts) };
  });
  const branches = rows.flatMap(row => (row.kind === 'branch' ? [branchTexts(row)] : []));
  const about = branches.map(texts => texts.aboutWidth);
  const bytes = branches[0]?.mostBytes ?? 0;
  return listForm({ texts: [...textOf.values()], names, about, bytes }, width, character);
}

/** Maker of listings, which reuses every unchanged part of the listing before. */
export class Listings {
  readonly open = new OpenBranches();
  readonly roots = remember(forest);
  private readonly found = remember(findArrays);
  private readonly sorted = remember(sorted);
  private readonly texts = remember(
    (arrays: readonly NamedArray[], meshes: ReadonlyMap<string, Mesh>): TextOf =>
      new Map(arrays.map(array => [array, textsOf(array, meshes)])),
  );
  private readonly branchTexts = remember(branchTextsMaker);
  private readonly flat = remember(flatRows);
  private readonly trees = remember((arrays: readonly NamedArray[], states: BranchStates) =>
    treeRows(this.roots(arrays), shownIn(states)),
  );
  // Widths are computed from all possible rows, so that neither a search nor opening a branch moves
  // them.
  private readonly all = {
    tree: remember((arrays: readonly NamedArray[]) =>
      treeRows(this.roots(arrays), ({ alike }) => (alike.length ? 'each' : 'open')),
    ),
    flat: remember(flatRows),
  };
  private readonly forms = { tree: remember(formOf), flat: remember(formOf) };

  of(
    { snapshot, meshes, state }: Scene,
    width: number,
    character: number,
    order: Order = 'tree',
  ): Listing {
    const { arrays, arrays_omitted: omitted } = snapshot;
    const found = this.sorted(this.found(arrays, state.query), meshes, order);
    const kind = found === arrays ? 'tree' : 'flat';
    this.open.settle(this.roots(arrays));
    const textOf = this.texts(arrays, meshes);
    const branchTexts = this.branchTexts(meshes, textOf, omitted);
    const all = this.all[kind](arrays);
    const form = this.forms[kind](all, textOf, branchTexts, width, character);
    return {
      rows: kind === 'tree' ? this.trees(arrays, this.open.states) : this.flat(found),
      tree: kind === 'tree',
      form,
      textsOf: array => textOf.get(array),
      branchTexts,
    };
  }
}
