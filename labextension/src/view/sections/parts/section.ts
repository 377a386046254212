/** What every part of the view has in common. */

import type { Scene } from '../../model/scene';
import type { Action } from '../../model/state';
import type { Look } from '../../paint/theme';

/** One part of the view: an element, and a drawing that touches only what changed. */
export interface Section {
  readonly node: HTMLElement;
  draw(scene: Scene, look: Look): void;
}

export type Dispatch = (action: Action) => void;

/** Answers whether any of the given values is not the one of the call before. */
export function changeOf(): (...values: readonly unknown[]) => boolean {
  let last: readonly unknown[] | null = null;
  return (...values) => {
    const same =
      last?.length === values.length && values.every((value, i) => Object.is(value, last?.[i]));
    last = values;
    return !same;
  };
}
