/** Layout of the list of arrays: one line for each row if all columns fit, else several. */

import { specLength, wordLengths, type ArrayTexts } from '../model/array_text';

/** Sizes in CSS pixels, the same as in the style sheet. */
const PADDING = 24;
const GAP = 10;
const LINE = 19;
const ROW_PADDING = 9;
const ONE_LINE = 29;
/** Indent of one level of a tree, and the most for all levels together. */
const INDENT = 12;
const MOST_INDENT = 96;
/** Width of the arrow before the name of a branch. */
const ARROW = 14;
/** The least width of a column, for its heading. */
const HEADING = 38;
/** Least width of the column of names, in characters; with less room, rows take several lines. */
const LEAST_NAME = 14;

/**
 * Lengths from which the widths are computed: those of all possible rows, so that nothing moves
 * when branches open.
 */
export interface ListContents {
  readonly texts: readonly ArrayTexts[];
  /** Level of each row, from 1; the characters of its name, and the characters beside the name. */
  readonly names: readonly {
    readonly level: number;
    readonly length: number;
    readonly beside: number;
  }[];
  /** The characters of the text about each branch, and the most characters that the bytes of a branch take. */
  readonly about: readonly number[];
  readonly bytes: number;
}

export interface ListForm {
  readonly kind: 'line' | 'stacked';
  /** The CSS `grid-template-columns` of a line. */
  readonly columns: string;
  /** Return how many characters a name of this level may have. */
  nameLength(level: number): number;
  /** Return how many pixels are left free before a name. */
  indent(level: number, kind: 'array' | 'branch'): number;
  /** Return the height in pixels of the row of an array. */
  height(texts: ArrayTexts, level: number): number;
  /** Return whether the text about a branch stands beside its name, given the characters of both. */
  beside(name: number, about: number, level: number): boolean;
  branchHeight(beside: boolean): number;
}

const longest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), 0);

/** Return how many lines words of the given lengths take, at `perLine` characters a line. */
export function linesFor(words: readonly number[], perLine: number): number {
  let [lines, used] = [1, 0];
  for (const word of words) {
    const needed = used ? used + 1 + word : word;
    if (needed <= perLine) used = needed;
    else {
      // A name that must be broken inside its box takes one line more than its characters suggest.
      lines += (used ? 1 : 0) + (word > perLine ? Math.ceil(word / perLine) : 0);
      used = Math.min(word, perLine);
    }
  }
  return lines;
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
    longest(texts.map(t => t.type.length)),
    longest(texts.map(t => specLength(t.spec))),
    longest([contents.bytes, ...texts.map(t => t.bytes.length)]),
    longest(texts.map(t => t.copies.length)),
  ];
  const columns = lengths.map(length => Math.max(HEADING, Math.ceil(length * character) + 2));
  const [type = 0, spec = 0] = columns;
  // The text about a branch takes the place of type and spec.
  const said = Math.ceil(longest(about) * character) + 2;
  columns[1] = Math.max(spec, about.length ? said - type - GAP : 0);
  const others = columns.reduce((a, b) => a + b + GAP, 0);
  const room = width - PADDING - others;
  const indent = indenter(about.length > 0, MOST_INDENT);
  const whole = longest(
    names.map(n => indent(n.level, 'array') + (n.length + n.beside) * character),
  );
  if (room < Math.max(LEAST_NAME * character, whole)) return stacked(contents, width, character);
  return {
    kind: 'line',
    columns: ['minmax(0, 1fr)', ...columns.map(pixels => `${pixels}px`)].join(' '),
    nameLength: () => longest(names.map(n => n.length)),
    indent,
    height: () => ONE_LINE,
    beside: () => false,
    branchHeight: () => ONE_LINE,
  };
}

function stacked(contents: ListContents, width: number, character: number): ListForm {
  const { texts, names, about } = contents;
  const perLine = Math.max(12, Math.floor((width - PADDING) / character));
  const bytes = longest([contents.bytes, ...texts.map(t => t.bytes.length)]);
  const room = perLine - bytes - longest(names.map(n => n.beside)) - 2;
  const most = Math.min(MOST_INDENT, Math.floor((room * character) / 3));
  const indent = indenter(about.length > 0, most);
  const taken = (level: number): number => Math.ceil(indent(level, 'array') / character);
  return {
    kind: 'stacked',
    columns: 'minmax(0, 1fr) auto',
    nameLength: level => room - taken(level),
    indent,
    height: (t, level) => {
      const beside = perLine - t.copiesWords.length - 2 - taken(level);
      return ROW_PADDING + LINE + LINE * linesFor(wordLengths(t), beside);
    },
    beside: (name, said, level) => name + said + 2 <= room - taken(level),
    branchHeight: beside => ROW_PADDING + (beside ? LINE : 2 * LINE),
  };
}
