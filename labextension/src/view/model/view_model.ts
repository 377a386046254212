/** The interface through which a view gets its data. */

import type { Request, ViewTraits } from './messages';

/**
 * The part of anywidget's model that the view uses; the side panel offers the same over the
 * kernel's connection.
 *
 * `msg:custom` brings frames and values. The view sends a `Hello` when it is ready and when it has
 * missed a frame, and expects a full frame in return.
 */
export interface ViewModel {
  get(key: keyof ViewTraits): unknown;
  on(event: 'msg:custom', callback: (message: unknown) => void): void;
  off(event: 'msg:custom', callback: (message: unknown) => void): void;
  send(content: Request): void;
}
