/** Messages that one kernel broadcasts, for every view that shows the kernel. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { Signal, type ISignal } from '@lumino/signaling';

import { COMM_ID, TARGET } from './view/model/contract';
import {
  ASK_MS,
  isCellMode,
  isFrame,
  isOutputs,
  isValues,
  takeFrame,
  type Known,
} from './view/model/frames';
import type { Frame, Outputs, Request, Values } from './view/model/messages';

const GONE: ReadonlySet<Kernel.Status> = new Set([
  'restarting',
  'autorestarting',
  'terminating',
  'dead',
]);

/**
 * Receiver of the frames on a kernel's iopub channel, which keeps the newest snapshot.
 *
 * Frames are broadcast with a fixed comm id and need no reply from the kernel, so a page that is
 * reloaded while a cell runs receives them at once.
 */
export class KernelSource implements IDisposable {
  private readonly frameSignal = new Signal<this, Frame>(this);
  private readonly valuesSignal = new Signal<this, Values>(this);
  private readonly outputsSignal = new Signal<this, Outputs>(this);
  private readonly goneSignal = new Signal<this, undefined>(this);
  private readonly changedSignal = new Signal<this, undefined>(this);
  /** Every frame, as it comes. */
  readonly frames: ISignal<this, Frame> = this.frameSignal;
  /** Every answer to a view that has asked for values. */
  readonly values: ISignal<this, Values> = this.valuesSignal;
  /** Outputs so far of the cells that run, from time to time. */
  readonly outputs: ISignal<this, Outputs> = this.outputsSignal;
  /** Signal that the kernel is gone or restarts: earlier data is no longer valid. */
  readonly gone: ISignal<this, undefined> = this.goneSignal;
  /** Signal that `executing` or `onProcesses` has changed. */
  readonly changed: ISignal<this, undefined> = this.changedSignal;
  /**
   * Whether the kernel executes a cell. `kernel.status` does not say this: it also follows what
   * arrives on a comm, which ends while a cell runs.
   */
  executing: boolean;
  /** Whether plain cells run on the processes. */
  onProcesses = false;
  /** Whether the kernel has said so itself; until then its status is all there is, as after a reload. */
  private heard = false;
  private comm: Promise<Kernel.IComm | null> | null = null;
  private known: Known | null = null;
  private receivedAt = 0;
  private askedAt = -Infinity;
  /** The stream received last; `ended` is the last stream of a kernel that is gone. */
  private stream: string | null = null;
  private ended: string | null = null;
  private disposed = false;

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    this.executing = kernel.status === 'busy';
    kernel.iopubMessage.connect(this.onMessage, this);
    kernel.statusChanged.connect(this.onStatus, this);
    kernel.disposed.connect(this.dispose, this);
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  /** Return the newest snapshot as a full frame, for a view that begins now; null before the first full frame. */
  newest(): Frame | null {
    if (!this.known) return null;
    const { stream, sequence, snapshot } = this.known;
    const age = (performance.now() - this.receivedAt) / 1000;
    return { type: 'frame', stream, sequence, base: null, age, snapshot };
  }

  /**
   * Ask for a full frame.
   *
   * Does nothing until something has been received: a kernel without nbdist would log an error
   * about an unknown comm, in every notebook of everybody who has the extension.
   */
  ask(): void {
    const now = performance.now();
    if (this.stream === null || !this.kernel.handleComms || now - this.askedAt < ASK_MS) return;
    this.askedAt = now;
    this.send({ type: 'hello' });
  }

  /** Send a request, if the kernel has sent something before. */
  send(request: Request): void {
    if (this.stream === null || !this.kernel.handleComms) return;
    this.comm ??= this.open();
    void this.comm.then(comm => {
      if (comm && !comm.isDisposed) comm.send({ ...request });
    });
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.kernel.iopubMessage.disconnect(this.onMessage, this);
    this.kernel.statusChanged.disconnect(this.onStatus, this);
    this.goneSignal.emit(undefined);
    Signal.clearData(this);
  }

  private async open(): Promise<Kernel.IComm | null> {
    try {
      await this.kernel.info;
      const comm = this.kernel.createComm(TARGET);
      // Without a subshell, the request goes to the main shell and waits for the cell that runs.
      if (this.kernel.supportsSubshells) await startedSubshell(comm);
      comm.onClose = () => {
        this.comm = null;
      };
      comm.open({});
      return comm;
    } catch (error) {
      // The kernel has gone meanwhile; the next kernel sends the full state again.
      if (error instanceof Error) return null;
      throw error;
    }
  }

  private onMessage(_: unknown, message: KernelMessage.IIOPubMessage): void {
    if (message.header.msg_type === 'status') this.onExecution(message);
    if (message.header.msg_type !== 'comm_msg') return;
    const { comm_id, data } = message.content as KernelMessage.ICommMsgMsg['content'];
    if (comm_id !== COMM_ID) return;
    if (isValues(data)) this.valuesSignal.emit(data);
    if (isOutputs(data)) this.outputsSignal.emit(data);
    if (isCellMode(data)) this.change(this.executing, data.on_processes);
    if (!isFrame(data)) return;
    // The last frames of the old kernel may arrive after the news that it restarts.
    if (data.stream === this.ended) return;
    this.stream = data.stream;
    const { known, result } = takeFrame(this.known, data);
    this.known = known;
    if (result === 'new' || result === 'same')
      this.receivedAt = performance.now() - 1000 * data.age;
    if (result === 'missed') this.ask();
    this.frameSignal.emit(data);
  }

  private onExecution({ content, parent_header }: KernelMessage.IIOPubMessage): void {
    const { execution_state } = content as KernelMessage.IStatusMsg['content'];
    if (!('msg_type' in parent_header) || parent_header.msg_type !== 'execute_request') return;
    this.heard = true;
    this.change(execution_state === 'busy', this.onProcesses);
  }

  private change(executing: boolean, onProcesses: boolean): void {
    if (executing === this.executing && onProcesses === this.onProcesses) return;
    this.executing = executing;
    this.onProcesses = onProcesses;
    this.changedSignal.emit(undefined);
  }

  private onStatus(_: unknown, status: Kernel.Status): void {
    if (!this.heard) this.change(status === 'busy', this.onProcesses);
    if (!GONE.has(status)) return;
    this.known = null;
    this.ended = this.stream ?? this.ended;
    this.stream = null;
    this.comm = null;
    this.change(false, false);
    this.goneSignal.emit(undefined);
  }
}

/**
 * Wait until the comm's subshell has started.
 *
 * JupyterLab's comms have a promise of that; other implementations of the interface may not.
 */
async function startedSubshell(comm: Kernel.IComm): Promise<void> {
  const started: unknown = 'subshellStarted' in comm ? comm.subshellStarted : null;
  if (started instanceof Promise) await started;
}

/** The sources by kernel connection, each made when it is first asked for. */
export class Sources {
  private readonly byKernel = new WeakMap<Kernel.IKernelConnection, KernelSource>();

  of(kernel: Kernel.IKernelConnection): KernelSource {
    let source = this.byKernel.get(kernel);
    if (!source) this.byKernel.set(kernel, (source = new KernelSource(kernel)));
    return source;
  }
}
