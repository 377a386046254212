/** The interface that all parts of the view have in common. */

import type { Scene } from '../../model/scene';
import type { Action } from '../../model/state';
import type { Look } from '../../paint/theme';

/** One part of the view: an element, and a drawing that touches only what changed. */
export interface Section {
  readonly node: HTMLElement;
  draw(scene: Scene, look: Look): void;
}

export type Dispatch = (action: Action) => void;

/** Return a function that returns whether any of its values differs from the call before. */
export function changeOf(): (...values: readonly unknown[]) => boolean {
  let last: readonly unknown[] | null = null;
  return (...values) => {
    const same =
      last?.length === values.length && values.every((value, i) => Object.is(value, last?.[i]));
    last = values;
    return !same;
  };
}
