/** Frames that never change, such as that of a program, as a notebook saves them. */

import type { Frame } from './view/model/messages';
import { isFrame } from './view/model/received';

/** Unpack a frame from JSON, compressed by gzip, in base64; return null if `text` is anything else. */
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
