/** Texts about a process: its activity in a few words. */

import { SILENT_SECONDS } from './contract';
import { metricText, secondsText } from './format';
import type { Process, Progress } from './snapshot';

/** A sign for each state, so that states are told apart without colour. */
export const SIGNS: Readonly<Record<Process['state'], string>> = {
  starting: '◌',
  idle: '○',
  running: '▶',
  compiling: '◐',
  failed: '✕',
  stuck: '■',
  lost: '∅',
};

export const TROUBLE: ReadonlySet<Process['state']> = new Set(['failed', 'stuck', 'lost']);

/** Return `cell 12` and `line 4`, as far as they are known. */
function place(process: Process): string[] {
  const parts: string[] = [];
  if (process.cell !== null) parts.push(`cell ${process.cell}`);
  if (process.line !== null) parts.push(`line ${process.line}`);
  return parts;
}

function seconds(process: Process): string[] {
  const shown = process.waiting || process.state === 'stuck' ? process.line_seconds : null;
  const value = shown ?? process.cell_seconds;
  return value === null ? [] : [secondsText(value)];
}

function activity(process: Process): string[] {
  const { state, error } = process;
  switch (state) {
    case 'running':
      return [...place(process), ...(process.waiting ? ['waiting'] : []), ...seconds(process)];
    case 'compiling':
    case 'stuck':
      return [state, ...place(process), ...seconds(process)];
    case 'failed':
      return [error ?? 'failed', ...place(process)];
    case 'lost':
      return error ? ['lost', error] : ['lost'];
    case 'starting':
    case 'idle':
      return [state];
  }
}

/**
 * Return the activity of a process in parts: `cell 12`, `line 4`, `3.2 s`;
 * `ValueError: empty batch`, `line 2`; `lost`, `last report 6.0 s ago`.
 */
export function activityParts(process: Process): readonly string[] {
  const silentSeconds = process.silent_seconds;
  const silent =
    silentSeconds !== null && (silentSeconds > SILENT_SECONDS || process.state === 'lost');
  const age = silent ? [`last report ${secondsText(silentSeconds)} ago`] : [];
  return [...activity(process), ...age];
}

/** Return the framework's name for the process, else its role if that is not the usual one, `worker`. */
export const taskText = (process: Process): string =>
  process.task ?? (process.role === 'worker' ? '' : process.role);

/** Return metrics as text: `loss 0.312  accuracy 0.911`. */
export const metricsText = ({ metrics }: Progress): string =>
  metrics.map(({ name, value }) => `${name} ${metricText(value)}`).join('  ');
