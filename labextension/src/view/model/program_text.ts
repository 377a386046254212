/** Texts about a program's memory and its parts. */

import { bytesText } from './format';
import type { ShownProgram } from './snapshot';

/** A part of the memory that a program needs on each device. */
export interface MemoryPart {
  readonly name: 'arguments' | 'outputs' | 'temporaries' | 'code';
  /** Bytes that the part takes in the bar. */
  readonly bytes: number;
  /** The size of the part, and how much of it is counted in another part. */
  readonly text: string;
}

/** Return the parts of the memory that a program needs; their sum is `needed`. None if the memory is not known. */
export function memoryParts({ memory }: ShownProgram): readonly MemoryPart[] {
  if (!memory) return [];
  const { outputs, aliased } = memory;
  const shared = aliased ? `, ${bytesText(aliased)} of it in place of arguments` : '';
  const parts: MemoryPart[] = [
    { name: 'arguments', bytes: memory.arguments, text: bytesText(memory.arguments) },
    { name: 'outputs', bytes: outputs - aliased, text: `${bytesText(outputs)}${shared}` },
    { name: 'temporaries', bytes: memory.temporaries, text: bytesText(memory.temporaries) },
    { name: 'code', bytes: memory.code, text: bytesText(memory.code) },
  ];
  return parts;
}

/** Return the memory left or missing: `12 GB are left`, `49 GB too much`; empty if either number is not known. */
export function marginText({ needed, limit, fits }: ShownProgram): string {
  if (needed === null || limit === null) return '';
  return fits
    ? `${bytesText(limit - needed)} are left`
    : `${bytesText(Math.max(0, needed - limit))} too much`;
}

/**
 * Return the bytes that a whole bar stands for: the limit, or what is needed if that is more; 0 if
 * neither is known.
 */
export const wholeOf = ({ needed, limit }: ShownProgram): number =>
  Math.max(needed ?? 0, limit ?? 0);
