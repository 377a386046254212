import type { Snapshot } from './snapshot';

export type Message = Frame | Values | Outputs | ViewTraits | Request;
export type Request = Hello | AskValues;

/**
 * The newest snapshot, or the top-level sections of it that have changed.
 *
 * `stream` names the sender, since a kernel that is restarted counts from the start. `base` is the sequence
 * number of the frame that this one is a change to; null where every section is there. A frame without sections
 * and with `base == sequence` says that nothing has changed. `age` is how long ago the snapshot was made, in
 * seconds.
 */
export interface Frame {
  stream: string;
  sequence: number;
  base: number | null;
  age: number;
  snapshot: Partial<Snapshot>;
  type: 'frame';
}
/**
 * What is in the array of a path, as the answer to `AskValues`: a `text`, or an `error`.
 */
export interface Values {
  path: string;
  text: string | null;
  picture: ValuesPicture | null;
  error: string | null;
  type: 'values';
}
/**
 * Values at some places of the last two axes, row by row.
 *
 * `values` are 0 for `low` to 1 for `high`, `"nan"` for what is no finite number, null for what is missing.
 */
export interface ValuesPicture {
  rows: number;
  columns: number;
  low: number;
  high: number;
  values: (number | 'nan' | null)[];
}
/**
 * What the cells that run have shown, for a page that was reloaded in the middle of one.
 */
export interface Outputs {
  cells: CellOutputs[];
  type: 'outputs';
}
/**
 * What one cell has shown, each output as a notebook saves it. `cell` is the id that the notebook gives it.
 */
export interface CellOutputs {
  cell: string;
  running: boolean;
  outputs: {
    [k: string]: unknown;
  }[];
}
/**
 * What a view knows of itself: its still picture, the array to pick first, and the only session to show.
 *
 * Each is empty for none. `packed` is a `Frame` with all there is of what never changes, such as a program: JSON,
 * compressed by gzip, in base64. It is null where frames come from the kernel.
 */
export interface ViewTraits {
  view_id: string;
  focus: string;
  session: string;
  packed: string | null;
}
/**
 * The page shows a view, or has missed a frame: it needs a full one.
 */
export interface Hello {
  type: 'hello';
}
/**
 * A person asks what is in the array of a path.
 */
export interface AskValues {
  path: string;
  type: 'values';
}
