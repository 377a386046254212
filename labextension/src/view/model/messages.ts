import type { Snapshot } from './snapshot';

export type Message = Frame | Values | Outputs | CellMode | ViewTraits | Request;
export type Request = Hello | AskValues;

/**
 * The newest snapshot, or its top-level sections that have changed.
 *
 * `stream` names the sender, since a restarted kernel counts from the start. `base` is the sequence number of the
 * frame to which this frame is a change; null if every section is present. A frame without sections and with
 * `base == sequence` says that nothing has changed. `age` is how long ago the snapshot was made, in seconds.
 */
export interface Frame {
  type: 'frame';
  stream: string;
  sequence: number;
  base: number | null;
  age: number;
  snapshot: Partial<Snapshot>;
}
/**
 * Content of the array at a path, as the answer to `AskValues`: a `text`, or an `error`.
 */
export interface Values {
  type: 'values';
  path: string;
  text: string | null;
  picture: ValuesPicture | null;
  error: string | null;
}
/**
 * Values at some places of the last two axes, row by row.
 *
 * `values` run from 0 for `low` to 1 for `high`; `"nan"` stands for a value that is not finite, null for a
 * missing one.
 */
export interface ValuesPicture {
  rows: number;
  columns: number;
  low: number;
  high: number;
  values: (number | 'nan' | null)[];
}
/**
 * Outputs so far of the cells that run, for a page that was reloaded in the middle of one.
 */
export interface Outputs {
  type: 'outputs';
  cells: CellOutputs[];
}
/**
 * Outputs of one cell, each as a notebook saves it. `cell` is the id that the notebook gives the cell.
 */
export interface CellOutputs {
  cell: string;
  running: boolean;
  outputs: {
    [k: string]: unknown;
  }[];
}
/**
 * Whether plain cells run on the processes, as `%dist_mode` sets it.
 */
export interface CellMode {
  type: 'mode';
  on_processes: boolean;
}
/**
 * Traits of a view: its still picture, the array to select first, the only session to show, and its form.
 *
 * The first three are empty for none. A `strip` is the session in one line, which opens as a view; other forms
 * but `view` are one section of it. `packed` is a `Frame` with everything that never changes, such as a program:
 * JSON, compressed by gzip, in base64. It is null if frames come from the kernel.
 */
export interface ViewTraits {
  view_id: string;
  focus: string;
  session: string;
  form: 'arrays' | 'mesh' | 'problem' | 'processes' | 'strip' | 'view';
  packed: string | null;
}
/**
 * The page shows a view, or has missed a frame: it needs a full frame.
 */
export interface Hello {
  type: 'hello';
}
/**
 * A person asks for the content of the array at a path.
 */
export interface AskValues {
  type: 'values';
  path: string;
}
