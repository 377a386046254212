/** Checks of comm messages: whether a message is nbdist's, and of which type. */

import type { Frame, Outputs, Values } from './messages';

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
