/** What the kernel answers when the person asks what is in an array; `nbdist/view/asked.py`. */

/** Values at some places of the last two axes, row by row. */
export interface ValuesPicture {
  readonly rows: number;
  readonly columns: number;
  readonly low: number;
  readonly high: number;
  /** 0 for `low` to 1 for `high`; `'nan'` for what is no finite number, null for what is missing. */
  readonly values: readonly (number | 'nan' | null)[];
}

/** Either an `error` or a `text`. */
export interface Values {
  readonly type: 'values';
  readonly path: string;
  readonly text?: string;
  readonly picture?: ValuesPicture | null;
  readonly error?: string;
}

/** True for an answer of ours. */
export function isValues(message: unknown): message is Values {
  if (typeof message !== 'object' || message === null) return false;
  const { type, path, text, error } = message as Record<string, unknown>;
  const said = typeof text === 'string' || typeof error === 'string';
  return type === 'values' && typeof path === 'string' && said;
}
