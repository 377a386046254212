/** What cells have shown, as the kernel repeats it; `nbdist/view/repeated.py`. */

/** An output as a notebook saves it. */
export type Output = Readonly<Record<string, unknown>>;

export interface CellOutputs {
  /** The id of the cell in the notebook. */
  readonly cell: string;
  readonly running: boolean;
  readonly outputs: readonly Output[];
}

export interface Outputs {
  readonly type: 'outputs';
  readonly cells: readonly CellOutputs[];
}

/** True for a message of ours. */
export function isOutputs(message: unknown): message is Outputs {
  if (typeof message !== 'object' || message === null) return false;
  const { type, cells } = message as Record<string, unknown>;
  return type === 'outputs' && Array.isArray(cells);
}
