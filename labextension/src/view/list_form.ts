/** How the list of arrays is laid out: one line a row where all columns fit, else several. */

import { specLength, wordLengths, type ArrayTexts } from './array_row';

/** Sizes in CSS pixels; the style sheet has the same ones. */
const PADDING = 24;
const GAP = 10;
const LINE = 19;
const ROW_PADDING = 9;
const ONE_LINE = 29;
/** The least width of a column, for its heading. */
const HEADING = 38;
/** Fewest characters of a name that a column of its own is worth. */
const LEAST_NAME = 14;

export interface ListForm {
  readonly kind: 'line' | 'stacked';
  /** Characters a name may have. */
  readonly nameLength: number;
  /** `grid-template-columns` of a line. */
  readonly columns: string;
  height(texts: ArrayTexts): number;
}

const longest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), 0);

/** Lines that words of the given lengths take at `perLine` characters a line. */
export function linesFor(words: readonly number[], perLine: number): number {
  let [lines, used] = [1, 0];
  for (const word of words) {
    const needed = used ? used + 1 + word : word;
    if (needed <= perLine) used = needed;
    else {
      // A name that must be broken inside its box takes a line more than its characters say.
      lines += (used ? 1 : 0) + (word > perLine ? Math.ceil(word / perLine) : 0);
      used = Math.min(word, perLine);
    }
  }
  return lines;
}

/**
 * Chooses the form for a list `width` pixels wide, with `character` pixels a character.
 *
 * One line a row is taken where the longest name fits beside the other columns.
 */
export function listForm(
  texts: readonly ArrayTexts[],
  nameLengths: readonly number[],
  width: number,
  character: number,
): ListForm {
  const lengths = [
    longest(texts.map(t => t.type.length)),
    longest(texts.map(t => specLength(t.spec))),
    longest(texts.map(t => t.bytes.length)),
    longest(texts.map(t => t.copies.length)),
  ];
  const columns = lengths.map(length => Math.max(HEADING, Math.ceil(length * character) + 2));
  const others = columns.reduce((a, b) => a + b + GAP, 0);
  const room = width - PADDING - others;
  const whole = longest(
    texts.map((t, i) => (nameLengths[i] ?? 0) + (t.who ? t.who.length + 2 : 0)),
  );
  if (room >= Math.max(LEAST_NAME, whole) * character) {
    const template = ['minmax(0, 1fr)', ...columns.map(pixels => `${pixels}px`)].join(' ');
    return { kind: 'line', nameLength: whole, columns: template, height: () => ONE_LINE };
  }
  return stacked(texts, width, character);
}

function stacked(texts: readonly ArrayTexts[], width: number, character: number): ListForm {
  const perLine = Math.max(12, Math.floor((width - PADDING) / character));
  const bytes = longest(texts.map(t => t.bytes.length));
  const who = longest(texts.map(t => (t.who ? t.who.length + 2 : 0)));
  return {
    kind: 'stacked',
    nameLength: perLine - bytes - who - 2,
    columns: 'minmax(0, 1fr) auto',
    height: t => {
      const room = perLine - t.copiesWords.length - 2;
      return ROW_PADDING + LINE + LINE * linesFor(wordLengths(t), room);
    },
  };
}
