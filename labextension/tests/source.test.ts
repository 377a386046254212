import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { KernelSource, Sources } from '../src/source';
import type { Frame } from '../src/view/model/messages';
import { golden } from './golden';

const { snapshot } = golden('tour');

/** The part of a kernel connection that a source uses. */
class FakeKernel {
  readonly iopubMessage = new Signal<this, KernelMessage.IIOPubMessage>(this);
  readonly statusChanged = new Signal<this, Kernel.Status>(this);
  readonly disposed = new Signal<this, undefined>(this);
  readonly handleComms = true;
  readonly supportsSubshells = true;
  readonly info = Promise.resolve();
  readonly asked: unknown[] = [];
  opened = 0;

  createComm(): unknown {
    return {
      subshellStarted: Promise.resolve(),
      isDisposed: false,
      open: () => (this.opened += 1),
      send: (data: unknown) => this.asked.push(data),
    };
  }

  /** Say that a request is begun or has ended. */
  status(execution_state: Kernel.Status, msg_type: string): void {
    const message = { header: { msg_type: 'status' }, parent_header: { msg_type } };
    const whole = { ...message, content: { execution_state } };
    this.iopubMessage.emit(whole as unknown as KernelMessage.IIOPubMessage);
  }

  say(data: unknown, comm_id = 'nbdist'): void {
    const message = { header: { msg_type: 'comm_msg' }, content: { comm_id, data } };
    this.iopubMessage.emit(message as unknown as KernelMessage.IIOPubMessage);
  }
}

const frame = (sequence: number, base: number | null, stream = 's'): Frame => ({
  type: 'frame',
  stream,
  sequence,
  base,
  age: 0,
  snapshot: base === null ? snapshot : {},
});

const connection = (kernel: FakeKernel): Kernel.IKernelConnection =>
  kernel as unknown as Kernel.IKernelConnection;

describe('what a kernel broadcasts', () => {
  let kernel: FakeKernel;
  let source: KernelSource;
  let frames: Frame[];

  beforeEach(() => {
    kernel = new FakeKernel();
    source = new KernelSource(connection(kernel));
    frames = [];
    source.frames.connect((_, heard) => {
      frames.push(heard);
    });
  });

  it('is passed on and kept for views that begin later', () => {
    kernel.say(frame(1, null));
    expect(frames).toHaveLength(1);
    expect(source.newest()?.snapshot).toBe(snapshot);
    expect(source.newest()?.base).toBeNull();
  });

  it('is told from the messages of other comms', () => {
    kernel.say(frame(1, null), 'another');
    kernel.say({ method: 'update' });
    expect(frames).toEqual([]);
  });

  it('is asked for only once a kernel has shown that it knows nbdist', async () => {
    source.ask();
    kernel.say(frame(4, 3));
    await vi.waitFor(() => {
      expect(kernel.asked).toEqual([{ type: 'hello' }]);
    });
    source.ask();
    expect(kernel.opened).toBe(1);
  });

  it('ends with the kernel, and what comes late from it is not heard', () => {
    const gone = vi.fn();
    source.gone.connect(gone);
    kernel.say(frame(1, null));
    kernel.statusChanged.emit('busy');
    expect(gone).not.toHaveBeenCalled();
    kernel.statusChanged.emit('restarting');
    expect(gone).toHaveBeenCalledOnce();
    kernel.say(frame(2, null));
    expect(source.newest()).toBeNull();
    kernel.say(frame(1, null, 'of the new kernel'));
    expect(source.newest()).not.toBeNull();
  });

  it('says whether a cell is executed, whatever arrives on a comm meanwhile', () => {
    expect(source.executing).toBe(false);
    kernel.status('busy', 'execute_request');
    kernel.status('busy', 'comm_msg');
    kernel.status('idle', 'comm_msg');
    expect(source.executing).toBe(true);
    kernel.status('idle', 'execute_request');
    expect(source.executing).toBe(false);
    kernel.status('busy', 'execute_request');
    kernel.statusChanged.emit('dead');
    expect(source.executing).toBe(false);
  });

  it('has executed before the page was there if the kernel is busy', () => {
    kernel.statusChanged.emit('busy');
    expect(source.executing).toBe(true);
    kernel.status('idle', 'execute_request');
    expect(source.executing).toBe(false);
    kernel.statusChanged.emit('busy');
    expect(source.executing).toBe(false);
  });

  it('says where plain cells run, until the kernel is gone', () => {
    const changed = vi.fn();
    source.changed.connect(changed);
    kernel.say({ type: 'mode', on_processes: true });
    kernel.say({ type: 'mode', on_processes: true });
    kernel.say({ type: 'mode', on_processes: 'no' });
    expect(source.onProcesses).toBe(true);
    expect(changed).toHaveBeenCalledOnce();
    kernel.statusChanged.emit('restarting');
    expect(source.onProcesses).toBe(false);
  });

  it('is not listened to after disposing, which may be done twice', () => {
    source.dispose();
    source.dispose();
    kernel.say(frame(1, null));
    expect(frames).toEqual([]);
    expect(source.isDisposed).toBe(true);
  });

  it('has one source a kernel', () => {
    const sources = new Sources();
    expect(sources.of(connection(kernel))).toBe(sources.of(connection(kernel)));
    expect(sources.of(connection(new FakeKernel()))).not.toBe(sources.of(connection(kernel)));
  });
});
