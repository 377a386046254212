/** Memory that a program needs on each device, as one bar that shows the limit too. */

import { bytesText } from '../../model/format';
import { memoryParts, wholeOf, type MemoryPart } from '../../model/program_text';
import type { ShownProgram } from '../../model/snapshot';
import { element } from '../parts/element';

const percent = (bytes: number, whole: number): string => `${((100 * bytes) / whole).toFixed(2)}%`;

function segment({ name, bytes }: MemoryPart, whole: number): HTMLElement {
  const node = element('i', '', { 'data-part': name });
  node.style.width = percent(bytes, whole);
  return node;
}

function entry({ name, text }: MemoryPart): HTMLElement {
  const sign = element('i', '', { 'data-part': name, 'aria-hidden': 'true' });
  return element('li', '', {}, sign, `${name} `, element('b', '', {}, text));
}

/** Return the bar, and a legend of its parts if they are known; nothing if the memory is not known. */
export function memoryBar(program: ShownProgram): readonly HTMLElement[] {
  const { needed, limit } = program;
  const whole = wholeOf(program);
  if (needed === null || whole === 0) return [];
  const parts = memoryParts(program);
  const of = limit === null ? '' : ` of ${bytesText(limit)}`;
  const bar = element('div', 'nbdist-program-bar', {
    role: 'img',
    'aria-label': `${bytesText(needed)}${of} on each device`,
  });
  const shown: readonly HTMLElement[] = parts.length
    ? parts.filter(part => part.bytes > 0).map(part => segment(part, whole))
    : [element('i', '', { 'data-part': 'unknown', style: `width: ${percent(needed, whole)}` })];
  bar.append(...shown);
  const box = element('div', 'nbdist-program-memory', {}, bar);
  if (limit !== null) {
    const mark = element('span', 'nbdist-program-limit', {
      'data-over': needed > limit,
      'data-left': limit < whole / 2,
    });
    mark.style.left = percent(limit, whole);
    mark.append(element('span', '', {}, `limit ${bytesText(limit)}`));
    box.append(mark);
  }
  const legend = element('ul', 'nbdist-program-parts', {}, ...parts.map(entry));
  return parts.length ? [box, legend] : [box];
}
