/** The session of the active notebook: what the controls show of it, followed from notebook to notebook. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal, type ISignal } from '@lumino/signaling';

import type { KernelSource, Sources } from '../source';
import {
  NOTHING,
  sessionOf,
  type Action,
  type KernelState,
  type SessionNow,
  type Situation,
} from './situation';

const KERNEL: Readonly<Partial<Record<Kernel.Status, KernelState>>> = {
  dead: 'dead',
  terminating: 'dead',
  starting: 'begins',
  restarting: 'begins',
  autorestarting: 'begins',
};

/** The notebook that was active last, its kernel and its session. */
export class ActiveSession implements IDisposable {
  private readonly changedSignal = new Signal<this, Situation>(this);
  /** Signal that the situation has changed; it carries the new one. */
  readonly changed: ISignal<this, Situation> = this.changedSignal;
  /** The kernel's broadcasts, or null if there is no kernel. */
  source: KernelSource | null = null;
  private context: ISessionContext | null = null;
  private known: Situation = NOTHING;
  private readonly underWay = new WeakMap<NotebookPanel, Action>();
  private disposed = false;

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly sources: Sources,
  ) {
    tracker.currentChanged.connect(this.followNotebook, this);
    this.followNotebook();
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  get notebook(): NotebookPanel | null {
    return this.tracker.currentWidget;
  }

  get situation(): Situation {
    return this.known;
  }

  /** Return the broadcasts of the kernel of any notebook; null if it has none. */
  sourceOf(notebook: NotebookPanel): KernelSource | null {
    const kernel = notebook.sessionContext.session?.kernel;
    return kernel ? this.sources.of(kernel) : null;
  }

  /** Note that an action on the session of a notebook is under way until `work` has ended. */
  async during<T>(notebook: NotebookPanel, action: Action, work: () => Promise<T>): Promise<T> {
    this.underWay.set(notebook, action);
    this.look();
    try {
      return await work();
    } finally {
      this.underWay.delete(notebook);
      this.look();
    }
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.tracker.currentChanged.disconnect(this.followNotebook, this);
    this.leaveContext();
    this.followSource(null);
    Signal.clearData(this);
  }

  private leaveContext(): void {
    this.context?.kernelChanged.disconnect(this.followKernel, this);
    this.context?.statusChanged.disconnect(this.look, this);
    this.context = null;
  }

  private followNotebook(): void {
    const context = this.notebook?.sessionContext ?? null;
    if (context !== this.context) {
      this.leaveContext();
      this.context = context;
      context?.kernelChanged.connect(this.followKernel, this);
      context?.statusChanged.connect(this.look, this);
    }
    this.followKernel();
  }

  private followKernel(): void {
    this.followSource(this.notebook ? this.sourceOf(this.notebook) : null);
    this.look();
  }

  private followSource(source: KernelSource | null): void {
    if (source === this.source) return;
    this.source?.frames.disconnect(this.look, this);
    this.source?.gone.disconnect(this.look, this);
    this.source?.changed.disconnect(this.look, this);
    this.source = source;
    source?.frames.connect(this.look, this);
    source?.gone.connect(this.look, this);
    source?.changed.connect(this.look, this);
  }

  private look(): void {
    const { notebook, source } = this;
    const session = sessionOf(source?.newest()?.snapshot ?? null);
    const now: Situation = {
      notebook: notebook !== null,
      kernel: this.kernelState(session),
      session,
      underWay: (notebook && this.underWay.get(notebook)) ?? null,
      onProcesses: source?.onProcesses ?? false,
    };
    if (JSON.stringify(now) === JSON.stringify(this.known)) return;
    this.known = now;
    this.changedSignal.emit(now);
  }

  private kernelState(session: SessionNow | null): KernelState {
    const status = this.context?.session?.kernel?.status;
    if (status === undefined) return 'none';
    // A page that was reloaded in the middle of a cell hears no status until the cell has ended.
    if (status === 'unknown' && session?.state === 'running') return 'busy';
    return KERNEL[status] ?? (this.source?.executing ? 'busy' : 'idle');
  }
}
