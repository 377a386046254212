/** Messages from the kernel: told from others, unpacked, and merged into the newest snapshot. */

import { VERSION } from './contract';
import type { CellMode, Frame, Outputs, Values } from './messages';
import type { Snapshot } from './snapshot';

function fields(message: unknown): Readonly<Record<string, unknown>> {
  return typeof message === 'object' && message !== null ? { ...message } : {};
}

export function isFrame(message: unknown): message is Frame {
  const { type, stream, sequence, base, age, snapshot } = fields(message);
  return (
    type === 'frame' &&
    typeof stream === 'string' &&
    typeof sequence === 'number' &&
    typeof age === 'number' &&
    (base === null || typeof base === 'number') &&
    typeof snapshot === 'object' &&
    snapshot !== null
  );
}

export function isValues(message: unknown): message is Values {
  const { type, path, text, error } = fields(message);
  const answers = typeof text === 'string' || typeof error === 'string';
  return type === 'values' && typeof path === 'string' && answers;
}

export function isOutputs(message: unknown): message is Outputs {
  const { type, cells } = fields(message);
  return type === 'outputs' && Array.isArray(cells);
}

export function isCellMode(message: unknown): message is CellMode {
  const { type, on_processes } = fields(message);
  return type === 'mode' && typeof on_processes === 'boolean';
}

/** Unpack a frame that never changes, as a notebook saves it: JSON, compressed by gzip, in base64; return null if `text` is anything else. */
export async function unpacked(text: string): Promise<Frame | null> {
  try {
    const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    const frame: unknown = await new Response(stream).json();
    return isFrame(frame) ? frame : null;
  } catch {
    return null;
  }
}

/** Least time between two requests for a full frame, in milliseconds. */
export const ASK_MS = 1000;

/** The snapshot after the last usable frame, with the stream and number of that frame. */
export interface Known {
  readonly stream: string;
  readonly sequence: number;
  readonly snapshot: Snapshot;
}

/**
 * The effect of a frame: `new` data; the `same` data again, which is therefore still fresh;
 * `missed` if an earlier frame never arrived, so that a full frame is needed; `unreadable` if the
 * frame is of another version.
 */
export interface Taken {
  readonly known: Known | null;
  readonly result: 'new' | 'same' | 'missed' | 'unreadable';
}

/** Merge one frame into the snapshot. Sections that did not change keep their identity. */
export function takeFrame(known: Known | null, frame: Frame): Taken {
  const { stream, sequence, base, snapshot } = frame;
  if (base === null) return takeFull(known, frame);
  if (known?.stream !== stream) return { known, result: 'missed' };
  if (sequence === known.sequence) return { known, result: 'same' };
  if (sequence < known.sequence) return { known, result: 'same' };
  if (base !== known.sequence) return { known, result: 'missed' };
  const merged = { ...known.snapshot, ...snapshot };
  return { known: { stream, sequence, snapshot: merged }, result: 'new' };
}

function takeFull(known: Known | null, frame: Frame): Taken {
  const { stream, sequence, snapshot } = frame;
  if (known?.stream === stream && sequence <= known.sequence) return { known, result: 'same' };
  if (snapshot.version !== VERSION) return { known, result: 'unreadable' };
  return { known: { stream, sequence, snapshot: snapshot as Snapshot }, result: 'new' };
}
