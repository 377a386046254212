/** What never changes, as a notebook keeps it. */

import type { Frame } from './view/model/messages';
import { isFrame } from './view/model/received';

/** The frame that was packed as JSON, by gzip, in base64; null of anything else. */
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
