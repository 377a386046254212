import type { INotebookTracker } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { beforeEach, describe, expect, it } from 'vitest';

import { ActiveSession } from '../src/controls/active_session';
import type { Situation } from '../src/controls/situation';
import type { Sources } from '../src/source';
import { golden } from './golden';

const { snapshot } = golden('tour');

/** What a kernel broadcasts, as far as the active session uses it. */
class FakeSource {
  executing = false;
  onProcesses = false;
  state: 'idle' | 'running' | 'stopped' | null = 'idle';
  readonly frames = new Signal<this, undefined>(this);
  readonly gone = new Signal<this, undefined>(this);
  readonly changed = new Signal<this, undefined>(this);

  newest(): unknown {
    return this.state && { snapshot: { ...snapshot, state: this.state } };
  }
}

class FakeNotebook {
  readonly source = new FakeSource();
  readonly kernel = { status: 'idle' as Kernel.Status, source: this.source };
  readonly sessionContext = {
    kernelChanged: new Signal<object, undefined>({}),
    statusChanged: new Signal<object, undefined>({}),
    session: { kernel: this.kernel } as { kernel: FakeNotebook['kernel'] | null },
  };
}

class FakeTracker {
  currentWidget: FakeNotebook | null = null;
  readonly currentChanged = new Signal<this, undefined>(this);

  become(notebook: FakeNotebook | null): void {
    this.currentWidget = notebook;
    this.currentChanged.emit(undefined);
  }
}

describe('the active session', () => {
  let tracker: FakeTracker;
  let active: ActiveSession;
  let heard: Situation[];

  beforeEach(() => {
    tracker = new FakeTracker();
    const sources = { of: ({ source }: FakeNotebook['kernel']) => source };
    active = new ActiveSession(
      tracker as unknown as INotebookTracker,
      sources as unknown as Sources,
    );
    heard = [];
    active.changed.connect((_, situation) => {
      heard.push(situation);
    });
  });

  it('is that of the notebook that is active', () => {
    const [one, other] = [new FakeNotebook(), new FakeNotebook()];
    other.source.state = null;
    expect(active.situation.notebook).toBe(false);
    tracker.become(one);
    expect(active.situation.session?.processes).toBe(snapshot.processes.length);
    tracker.become(other);
    expect(active.situation.session).toBeNull();
    one.source.executing = true;
    one.source.changed.emit(undefined);
    expect(active.situation.kernel).toBe('idle');
    tracker.become(null);
    expect(active.situation.notebook).toBe(false);
  });

  it('changes only when something of it does', () => {
    const notebook = new FakeNotebook();
    tracker.become(notebook);
    notebook.source.frames.emit(undefined);
    expect(heard).toHaveLength(1);
    notebook.source.executing = true;
    notebook.source.changed.emit(undefined);
    expect(heard.map(({ kernel }) => kernel)).toEqual(['idle', 'busy']);
    notebook.source.state = 'stopped';
    notebook.source.frames.emit(undefined);
    expect(active.situation.session).toBeNull();
  });

  it('is busy if a page that was reloaded hears nothing of the kernel but a running cell', () => {
    const notebook = new FakeNotebook();
    notebook.kernel.status = 'unknown';
    notebook.source.state = 'running';
    tracker.become(notebook);
    expect(active.situation.kernel).toBe('busy');
  });

  it('ends with its kernel', () => {
    const notebook = new FakeNotebook();
    tracker.become(notebook);
    notebook.kernel.status = 'dead';
    notebook.sessionContext.statusChanged.emit(undefined);
    expect(active.situation.kernel).toBe('dead');
    notebook.sessionContext.session.kernel = null;
    notebook.sessionContext.kernelChanged.emit(undefined);
    expect(active.situation.kernel).toBe('none');
    expect(active.source).toBeNull();
  });

  it('has an action under way in one notebook alone, also if that fails', async () => {
    const [one, other] = [new FakeNotebook(), new FakeNotebook()];
    one.source.state = null;
    tracker.become(one);
    let end: (error: Error) => void = () => undefined;
    const work = new Promise<never>((_, reject) => (end = reject));
    const notebook = active.notebook;
    if (!notebook) throw new Error('no notebook is active');
    const done = active.during(notebook, 'start', () => work);
    expect(active.situation.underWay).toBe('start');
    tracker.become(other);
    expect(active.situation.underWay).toBeNull();
    tracker.become(one);
    end(new Error('refused'));
    await expect(done).rejects.toThrow('refused');
    expect(active.situation.underWay).toBeNull();
  });

  it('follows nothing once it is disposed of, which may be done twice', () => {
    active.dispose();
    active.dispose();
    tracker.become(new FakeNotebook());
    expect(heard).toEqual([]);
  });
});
