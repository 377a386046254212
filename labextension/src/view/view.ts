/** The live picture of a session: one view for notebook outputs, side panels and pages. */

import { STILL_ATTRIBUTE } from './model/contract';
import { ASK_MS, isFrame, isValues, takeFrame, type Known } from './model/frames';
import type { Frame, Request, ViewTraits } from './model/messages';
import { isOnPaper, sceneMaker } from './model/scene';
import { initialState, reduce, type Action, type State } from './model/state';
import { readLook, themeOf, watchTheme, type Look } from './paint/look';
import { Painter } from './paint/painter';
import { Page } from './sections/page/page';
import { setAttributes, setShown, setText } from './sections/parts/parts';
import { giveFocusBack, isForThePage, passShortcuts } from './shortcuts';

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

/** Time between two updates of the age of the data, in milliseconds. */
const AGE_MS = 500;
/** Time without a frame, in milliseconds, after which another sender may be followed. */
const SILENT_MS = 5000;

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/**
 * Hide the still picture of a view: every element that has `viewId` in the attribute `STILL_ATTRIBUTE`.
 *
 * Returns the function that shows them again. Adds a style rule and does not change the elements,
 * since the notebook may make its outputs anew at any time.
 */
function hideStill(viewId: string): () => void {
  const style = document.createElement('style');
  style.textContent = `[${STILL_ATTRIBUTE}="${CSS.escape(viewId)}"] { display: none !important; }`;
  document.head.append(style);
  return () => {
    style.remove();
  };
}

class LiveView {
  private state: State;
  private known: Known | null = null;
  private receivedAt = 0;
  private askedAt = -Infinity;
  private look: Look | null = null;
  private readonly page: Page;
  private readonly make = sceneMaker();
  private readonly painter: Painter;
  private readonly resize: ResizeObserver;
  private readonly undo: (() => void)[] = [];
  private readonly receive = (message: unknown): void => {
    this.take(message);
  };

  constructor(
    private readonly model: ViewModel,
    parent: HTMLElement,
  ) {
    this.state = initialState(asText(model.get('focus')) || null, model.get('form') === 'strip');
    const prefix = `nbdist-${Math.random().toString(36).slice(2, 10)}`;
    this.page = new Page(
      action => {
        this.dispatch(action);
      },
      () => this.state.cursor,
      prefix,
      this.model.get('form'),
    );
    const { root } = this.page;
    // If there is a still picture, the view stays hidden until it has something to show.
    setShown(root, this.viewId === '');
    parent.append(root);
    root.addEventListener('keydown', event => {
      this.press(event);
    });
    const flush = (): void => {
      this.painter.flush();
    };
    root.addEventListener('keydown', flush, { capture: true });
    this.painter = new Painter(root, () => {
      this.draw();
    });
    this.resize = new ResizeObserver(() => {
      this.painter.request();
    });
    this.resize.observe(root);
    this.start();
  }

  private get viewId(): string {
    return asText(this.model.get('view_id'));
  }

  private start(): void {
    const age = setInterval(() => {
      this.writeAge();
    }, AGE_MS);
    const theme = watchTheme(() => {
      this.look = null;
      this.painter.request();
    });
    this.model.on('msg:custom', this.receive);
    this.undo.push(theme, () => {
      clearInterval(age);
      this.model.off('msg:custom', this.receive);
    });
    this.undo.push(passShortcuts(this.page.root));
    this.painter.request();
    this.askAgain();
  }

  private take(message: unknown): void {
    if (isValues(message)) this.dispatch({ type: 'values', values: message });
    if (!isFrame(message) || !this.concerns(message)) return;
    const { known, result } = takeFrame(this.known, message);
    if (result === 'missed') this.askAgain();
    if (result === 'unreadable') this.refuse();
    if (result !== 'new' && result !== 'same') return;
    this.receivedAt = performance.now() - 1000 * message.age;
    if (!known || result === 'same') return;
    if (!this.known) this.reveal();
    this.known = known;
    this.state = reduce(this.state, { type: 'snapshot', snapshot: known.snapshot });
    this.painter.requestForData();
  }

  /**
   * Return whether a frame belongs to the session that is shown.
   *
   * Another sender is followed only if the current one has stopped or has been silent for
   * `SILENT_MS`, so that two sessions do not take turns.
   */
  private concerns(frame: Frame): boolean {
    const { known } = this;
    if (known?.stream === frame.stream) return true;
    const wanted = asText(this.model.get('session'));
    const { session } = frame.snapshot;
    if (wanted && session !== undefined && session !== wanted) return false;
    if (!known) return true;
    const silent = performance.now() - this.receivedAt > SILENT_MS;
    return frame.base === null && (silent || known.snapshot.state === 'stopped');
  }

  /** Ask for a full frame, but not again within `ASK_MS`, however many frames cannot be used. */
  private askAgain(): void {
    const now = performance.now();
    if (now - this.askedAt < ASK_MS) return;
    this.askedAt = now;
    this.model.send({ type: 'hello' });
  }

  /** Show the view and hide its still picture, once the first data is there. */
  private reveal(): void {
    setShown(this.page.root, true);
    if (this.viewId) this.undo.push(hideStill(this.viewId));
  }

  private refuse(): void {
    setShown(this.page.root, true);
    const text = 'This page and the kernel have different versions of nbdist. Reload the page.';
    setText(this.page.waiting, text);
  }

  private dispatch(action: Action): void {
    if (action.type === 'ask') this.model.send({ type: 'values', path: action.path });
    this.state = reduce(this.state, action);
    this.painter.request();
  }

  private draw(): void {
    const { root } = this.page;
    if (!this.look) {
      const theme = themeOf(root);
      setAttributes(root, { 'data-nbdist-theme': theme });
      this.look = readLook(root, theme);
    }
    this.page.draw(this.state, this.make, this.look);
    this.writeAge();
  }

  private writeAge(): void {
    // A session that has stopped sends nothing more, nor does a plan, which is no sign of trouble.
    if (!this.known || !this.painter.seen) return;
    const { snapshot } = this.known;
    if (snapshot.state === 'stopped' || isOnPaper(snapshot)) return;
    this.page.header.tick((performance.now() - this.receivedAt) / 1000);
  }

  private press(event: KeyboardEvent): void {
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey) {
      this.state = reduce(this.state, { type: 'side', side: 'arrays' });
      // A hidden element cannot take the focus, so the pane is shown first.
      this.draw();
      this.page.list.focusSearch();
      event.preventDefault();
    }
    if (event.key === 'Escape' && !event.defaultPrevented) this.leave();
    // Keys without a modifier are the notebook's own shortcuts: `d d` deletes a cell.
    if (!isForThePage(event)) event.stopPropagation();
  }

  /** Let go of what is chosen, else give the focus back to the notebook. */
  private leave(): void {
    if (this.state.chosen.length) {
      this.unchoose();
      return;
    }
    if (this.state.cursor !== null) this.dispatch({ type: 'cursor', device: null });
    giveFocusBack(this.page.root);
  }

  private unchoose(): void {
    this.dispatch({ type: 'choose', collectives: [] });
    this.page.say('No collective is chosen');
  }

  dispose(): void {
    for (const undo of this.undo.splice(0)) undo();
    this.resize.disconnect();
    this.painter.dispose();
    this.page.root.remove();
  }
}

/**
 * Show the session of `model` inside `parent`.
 *
 * Returns the function that removes the view; it may be called more than once.
 */
export function mount(model: ViewModel, parent: HTMLElement): () => void {
  const view = new LiveView(model, parent);
  return () => {
    view.dispose();
  };
}
