/** What the view needs from whoever holds it. */

/**
 * The part of anywidget's model that the view uses; the side panel offers the same over the
 * kernel's connection.
 *
 * `msg:custom` brings frames (`frame.ts`). The view sends `{type: "hello"}` when it is ready and
 * when it has missed a frame, and expects a full frame in return.
 */
export interface ViewModel {
  /** `view_id`, the array to `focus`, and the only `session` to show; empty for none. */
  get(key: 'view_id' | 'focus' | 'session'): unknown;
  on(event: 'msg:custom', callback: (message: unknown) => void): void;
  off(event: 'msg:custom', callback: (message: unknown) => void): void;
  send(content: Request): void;
}

/** What a view asks for: a full frame, or what is in an array (answered by `values.ts`). */
export type Request =
  { readonly type: 'hello' } | { readonly type: 'values'; readonly path: string };
