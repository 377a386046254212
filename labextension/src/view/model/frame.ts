/** Frames from the kernel, merged to the newest snapshot. */

import { VERSION } from './contract';
import type { Frame } from './messages';
import type { Snapshot } from './snapshot';

/** Fewest milliseconds between two requests for a full frame. */
export const ASK_MS = 1000;

/** What is known after the last usable frame. */
export interface Known {
  readonly stream: string;
  readonly sequence: number;
  readonly snapshot: Snapshot;
}

/**
 * What a frame did: `new` data, `same` data once more (so it is still fresh), or `missed` when a
 * frame before it never arrived and only a full one helps.
 */
export interface Taken {
  readonly known: Known | null;
  readonly result: 'new' | 'same' | 'missed' | 'unreadable';
}

/** Merges one frame into what is known. Sections that did not change keep their identity. */
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
