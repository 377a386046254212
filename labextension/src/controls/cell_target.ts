/** Where a code cell runs, by its first line and `%dist_mode`, and the first line that changes it. */

import { countText } from '../view/model/format';

/**
 * Where a cell runs: on `all` processes, on `some`, which are named as `--on` names them, on all and
 * then `both` there and in the notebook, or only `here`. A cell with a magic of its own, such as
 * `%%bash`, is `fixed`: another first line would make another cell of it.
 */
export type Target =
  | { readonly kind: 'all' | 'here' | 'both' | 'fixed' }
  | { readonly kind: 'some'; readonly on: string };

/** The place of the first line that is not empty, and its text. */
function firstLine(source: string): { readonly start: number; readonly text: string } {
  const start = source.length - source.trimStart().length;
  const end = source.indexOf('\n', start);
  return { start, text: source.slice(start, end < 0 ? undefined : end).trimEnd() };
}

const DIST = /^%%(?:dist|distributed)(?:\s+(.*))?$/;
const RANK = /^%%rank\s*\[?(.*?)\]?$/;
const ON = /(?:^|\s)--on(?:\s+|=)('[^']*'|"[^"]*"|\S+)/;
const HERE = /(?:^|\s)--here(?=\s|$)/;
/** Lines that run in the notebook whatever the mode is, as `nbdist/magics/typed.py` has them. */
const OWN = /^\s*%(dist|dist_\w+|sync|load_ext|unload_ext|reload_ext)\b/;

const unquoted = (word: string): string => word.replace(/^(['"])(.*)\1$/, '$2');

/** Return where a cell runs. */
export function targetOf(source: string, onProcesses: boolean): Target {
  const { text } = firstLine(source);
  const dist = DIST.exec(text);
  if (dist) {
    const options = dist[1] ?? '';
    if (HERE.test(options)) return { kind: 'both' };
    const on = ON.exec(options)?.[1];
    return on === undefined ? { kind: 'all' } : { kind: 'some', on: unquoted(on) };
  }
  const rank = RANK.exec(text);
  // Both ends of a range of `%%rank` are included, which brackets say to `--on`.
  if (rank) return { kind: 'some', on: `[${rank[1] ?? ''}]` };
  if (/^%%local\b/.test(text)) return { kind: 'here' };
  if (text.startsWith('%%')) return { kind: 'fixed' };
  const lines = source.split('\n').filter(line => line.trim() && !line.trimStart().startsWith('#'));
  if (lines.length && lines.every(line => OWN.test(line))) return { kind: 'fixed' };
  return { kind: onProcesses && lines.length ? 'all' : 'here' };
}

/** Return what a person reads: `all processes`, `processes 0,2`, `only here`. */
export function targetText(target: Target): string {
  switch (target.kind) {
    case 'all':
      return 'all processes';
    case 'some':
      return /^\d+$/.test(target.on) ? `process ${target.on}` : `processes ${target.on}`;
    case 'both':
      return 'all, then here';
    case 'here':
      return 'only here';
    case 'fixed':
      return '';
  }
}

/** Return the options of `%%dist` in a cell that do not say where it runs. */
function otherOptions(text: string): string {
  const options = DIST.exec(text)?.[1] ?? '';
  return options.replace(ON, ' ').replace(HERE, ' ').replaceAll(/\s+/g, ' ').trim();
}

/** Return the first line for a target; null if the cell needs none. */
function lineFor(target: Target, options: string, onProcesses: boolean): string | null {
  switch (target.kind) {
    case 'fixed':
      return null;
    case 'here':
      return onProcesses ? '%%local' : null;
    case 'all':
      if (onProcesses && !options) return null;
      return ['%%dist', options].join(' ').trimEnd();
    case 'both':
      return ['%%dist --here', options].join(' ').trimEnd();
    case 'some': {
      const on = /[\s'"#;]/.test(target.on) ? `'${target.on.replaceAll("'", '')}'` : target.on;
      return [`%%dist --on ${on}`, options].join(' ').trimEnd();
    }
  }
}

/** Return the source of the same cell for another target. */
export function retargeted(source: string, target: Target, onProcesses: boolean): string {
  const now = targetOf(source, onProcesses);
  if (now.kind === 'fixed') return source;
  const { start, text } = firstLine(source);
  const has = DIST.test(text) || RANK.test(text) || /^%%local\b/.test(text);
  const after = source.slice(start + text.length).replace(/^[^\S\n]*\n?/, '');
  const body = has ? after : source;
  const line = lineFor(target, has ? otherOptions(text) : '', onProcesses);
  return line === null ? body : `${line}\n${body}`;
}

/** Return the targets to choose from: all, each process if they are few, both, here. */
export function choices(processes: number): readonly Target[] {
  const each = processes > 1 && processes <= MOST_LISTED ? Array.from({ length: processes }) : [];
  return [
    { kind: 'all' },
    ...each.map((_, id): Target => ({ kind: 'some', on: String(id) })),
    { kind: 'both' },
    { kind: 'here' },
  ];
}

/** The most processes that are listed one by one. */
const MOST_LISTED = 8;

/** Return the hint of the question for some processes. */
export const onHint = (processes: number): string =>
  `Of ${countText(processes, 'process', 'processes')}: numbers and ranges, such as 0,2 or [0-2], or host=NAME.`;
