/** The `%dist_init` line that a form makes, and the form that a line makes. */

/** Where the processes run. */
export type Place = 'here' | 'hosts' | 'slurm';

/** The fields of the form; an empty one is left out of the line. */
export interface StartValues {
  readonly processes: string;
  readonly devices: string;
  readonly platform: string;
  readonly place: Place;
  readonly hosts: string;
  readonly framework: string;
  /** Further options, as they are typed in the line. */
  readonly further: string;
}

export type Field = keyof StartValues;

export const DEFAULTS: StartValues = {
  processes: '',
  devices: '',
  platform: '',
  place: 'here',
  hosts: '',
  framework: '',
  further: '',
};

/** A field, and the part of the line that it makes. */
export type Piece = readonly [field: Field, words: string];

const MAGIC = '%dist_init';

/** The fields that are one option with a value, and the option's names. */
const VALUES: readonly (readonly [Field, readonly string[]])[] = [
  ['processes', ['-n', '--processes']],
  ['devices', ['--devices-per-process']],
  ['platform', ['--platform']],
  ['hosts', ['--hosts']],
  ['framework', ['--framework']],
];

/** Return a value as one word of the line, in quotes where it would be several. */
function word(value: string): string {
  return /^[\w@%+=:,./[\]-]+$/.test(value) ? value : `'${value.replaceAll("'", `'"'"'`)}'`;
}

/** Return the parts of the line, in its order. */
export function piecesOf(values: StartValues): Piece[] {
  const pieces: Piece[] = [];
  for (const [field, [name = '']] of VALUES) {
    const value = values[field].trim();
    if (field === 'hosts') {
      if (values.place === 'slurm') pieces.push(['place', '--slurm']);
      // Without a host the option alone stands there, which the parser refuses.
      if (values.place === 'hosts') pieces.push(['hosts', value ? `${name} ${word(value)}` : name]);
    } else if (value) pieces.push([field, `${name} ${word(value)}`]);
  }
  const further = values.further.trim();
  if (further) pieces.push(['further', further]);
  return pieces;
}

/** Return the parts of the whole line, each an option with its value. */
export const partsOf = (values: StartValues): string[] => [
  MAGIC,
  ...piecesOf(values).map(([, words]) => words),
];

/** Return the whole line. */
export const lineOf = (values: StartValues): string => partsOf(values).join(' ');

/** Split a line into words as a shell does, each as it is written and without its quotes. */
function wordsOf(line: string): { readonly written: string; readonly value: string }[] {
  const found = line.match(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g) ?? [];
  return found.map(written => ({
    written,
    value: written.replaceAll(/'([^']*)'|"([^"]*)"/g, (_, single?: string, double?: string) => {
      return single ?? double ?? '';
    }),
  }));
}

/** Return the form that makes a line with the same meaning; what has no field is among the further options. */
export function valuesOf(line: string): StartValues {
  const values = { ...DEFAULTS };
  const further: string[] = [];
  const words = wordsOf(line.trim().slice(MAGIC.length));
  for (let at = 0; at < words.length; at += 1) {
    const { written = '', value: option = '' } = words[at] ?? {};
    const field = VALUES.find(([, names]) => names.includes(option))?.[0];
    const value = words[at + 1]?.value;
    if (option === '--slurm') values.place = 'slurm';
    else if (field && field !== 'place' && value !== undefined) {
      values[field] = value;
      if (field === 'hosts') values.place = 'hosts';
      at += 1;
    } else further.push(written);
  }
  return { ...values, further: further.join(' ') };
}

/** Return the last start in the cells of a notebook that the form can repeat; null if there is none. */
export function lastStart(sources: Iterable<string>): string | null {
  let last: string | null = null;
  for (const source of sources) {
    for (const line of source.split('\n')) {
      const text = line.trim();
      if (/^%dist_init\b/.test(text) && !/\s--(restart|attach|help)\b/.test(text)) last = text;
    }
  }
  return last;
}

/** Return the text of the cell that starts a session. */
export const startCell = (line: string, loaded: boolean): string =>
  loaded ? line : `%load_ext nbdist\n${line}`;
