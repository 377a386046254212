/** The memory of a program in parts, and what is said of each. */

import { bytesText } from './format';
import type { ShownProgram } from './snapshot';

/** A part of the memory that a program needs of each device. */
export interface MemoryPart {
  readonly name: 'arguments' | 'outputs' | 'temporaries' | 'code';
  /** What it takes of the bar. */
  readonly bytes: number;
  /** Its size, and how much of it is counted elsewhere. */
  readonly text: string;
}

/** The parts of what a program needs; together they are `needed`. None where its memory is not known. */
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

/** `12 GB are left`, `49 GB too much`; empty where either figure is not known. */
export function marginText({ needed, limit, fits }: ShownProgram): string {
  if (needed === null || limit === null) return '';
  return fits
    ? `${bytesText(limit - needed)} are left`
    : `${bytesText(Math.max(0, needed - limit))} too much`;
}

/** The whole of a bar in bytes: what there is, or what is needed where that is more; 0 where neither is known. */
export const wholeOf = ({ needed, limit }: ShownProgram): number =>
  Math.max(needed ?? 0, limit ?? 0);
