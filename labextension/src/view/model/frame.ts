/** Frames from the kernel, merged into the newest snapshot. */

import { VERSION } from './contract';
import type { Frame } from './messages';
import type { Snapshot } from './snapshot';

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
