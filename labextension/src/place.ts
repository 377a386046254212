/** A place in the page that holds a live view while there is something to show, and is empty otherwise. */

import type { IDisposable } from '@lumino/disposable';

import type { KernelSource } from './source';
import type { Frame, Request, Values, ViewTraits } from './view/model/messages';
import { mount, type ViewModel } from './view/view';

type Listener = (message: unknown) => void;

/** The data of one view; `pass` gives it a message. */
interface PlaceModel extends ViewModel {
  readonly pass: Listener;
}

/** Return the data of a view that begins with the `newest` frame, and whose requests `answer` gets. */
function modelOf(
  traits: ViewTraits,
  newest: () => Frame | null,
  answer: (request: Request) => void,
): PlaceModel {
  const listeners = new Set<Listener>();
  return {
    get: key => traits[key],
    on: (_, listener) => {
      listeners.add(listener);
      const frame = newest();
      if (frame) listener(frame);
    },
    off: (_, listener) => {
      listeners.delete(listener);
    },
    send: answer,
    pass: message => {
      for (const listener of listeners) listener(message);
    },
  };
}

/** Mount a view of a frame that never changes in `node`. Return the function that removes it. */
export function mountFixed(node: HTMLElement, traits: ViewTraits, frame: Frame): () => void {
  const answer = (request: Request): void => {
    if (request.type !== 'values') return;
    // There is no kernel to ask for values.
    model.pass({ type: 'values', path: request.path, error: 'This picture has no values.' });
  };
  const model = modelOf(traits, () => frame, answer);
  return mount(model, node);
}

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
    const answer = (request: Request): void => {
      if (request.type === 'hello') source.ask();
      else source.send(request);
    };
    const model = modelOf(traits, () => source.newest(), answer);
    const pass = (_: unknown, message: Frame | Values): void => {
      model.pass(message);
    };
    source.frames.connect(pass);
    source.values.connect(pass);
    const unmount = mount(model, this.node);
    this.unmount = () => {
      unmount();
      source.frames.disconnect(pass);
      source.values.disconnect(pass);
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
