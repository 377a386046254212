/** A place in the page that holds a live view while there is something to show, and is empty otherwise. */

import type { IDisposable } from '@lumino/disposable';

import type { KernelSource } from './source';
import type { Frame, Request, Values, ViewTraits } from './view/model/messages';
import type { ViewModel } from './view/model/view_model';
import { mount } from './view/view';

type Listener = (message: unknown) => void;

/** Adapter that gives a view the frames and values of a kernel, as a `ViewModel`. */
class SourceModel implements ViewModel {
  private readonly listeners = new Set<Listener>();

  constructor(
    private readonly source: KernelSource,
    private readonly traits: ViewTraits,
  ) {
    source.frames.connect(this.pass, this);
    source.values.connect(this.pass, this);
  }

  get(key: keyof ViewTraits): unknown {
    return this.traits[key];
  }

  on(_: 'msg:custom', listener: Listener): void {
    this.listeners.add(listener);
    const newest = this.source.newest();
    if (newest) listener(newest);
  }

  off(_: 'msg:custom', listener: Listener): void {
    this.listeners.delete(listener);
  }

  send(request: Request): void {
    if (request.type === 'hello') this.source.ask();
    else this.source.send(request);
  }

  dispose(): void {
    this.source.frames.disconnect(this.pass, this);
    this.source.values.disconnect(this.pass, this);
  }

  private pass(_: unknown, message: Frame | Values): void {
    for (const listener of this.listeners) listener(message);
  }
}

/** Adapter that gives a view one frame that never changes; there is no kernel to ask for values. */
class FixedModel implements ViewModel {
  private readonly listeners = new Set<Listener>();

  constructor(
    private readonly traits: ViewTraits,
    private readonly frame: Frame,
  ) {}

  get(key: keyof ViewTraits): unknown {
    return this.traits[key];
  }

  on(_: 'msg:custom', listener: Listener): void {
    this.listeners.add(listener);
    listener(this.frame);
  }

  off(_: 'msg:custom', listener: Listener): void {
    this.listeners.delete(listener);
  }

  send(request: Request): void {
    if (request.type !== 'values') return;
    const error = 'This picture has no values.';
    const answer = { type: 'values', path: request.path, error };
    for (const listener of this.listeners) listener(answer);
  }
}

/** Mount a view of a frame that never changes in `node`. Return the function that removes it. */
export const mountFixed = (node: HTMLElement, traits: ViewTraits, frame: Frame): (() => void) =>
  mount(new FixedModel(traits, frame), node);

/** A place that mounts a view in `node` as soon as the followed source has sent a full frame. */
export class LivePlace implements IDisposable {
  private source: KernelSource | null = null;
  private unmount: (() => void) | null = null;
  private disposed = false;

  constructor(
    private readonly node: HTMLElement,
    private readonly traits: ViewTraits,
    private readonly changed: (live: boolean) => void,
  ) {}

  get isDisposed(): boolean {
    return this.disposed;
  }

  /** Show what `source` sends from now on; show nothing if it is null. */
  follow(source: KernelSource | null): void {
    if (source === this.source || this.disposed) return;
    this.source?.frames.disconnect(this.onFrame, this);
    this.source?.gone.disconnect(this.clear, this);
    this.clear();
    this.source = source;
    source?.frames.connect(this.onFrame, this);
    source?.gone.connect(this.clear, this);
    this.begin();
  }

  dispose(): void {
    if (this.disposed) return;
    this.follow(null);
    this.disposed = true;
  }

  private onFrame(): void {
    if (!this.unmount) this.begin();
  }

  private begin(): void {
    const { source, traits } = this;
    const session = source?.newest()?.snapshot.session;
    if (!source || session === undefined) return;
    if (traits.session && traits.session !== session) return;
    const model = new SourceModel(source, traits);
    const unmount = mount(model, this.node);
    this.unmount = () => {
      unmount();
      model.dispose();
    };
    this.changed(true);
  }

  private clear(): void {
    if (!this.unmount) return;
    this.unmount();
    this.unmount = null;
    this.changed(false);
  }
}
