/**
 * Outputs of cells that run while the page is reloaded.
 *
 * JupyterLab takes no output of a cell that another page has started. The kernel records the
 * outputs of the cells that run, and repeats them; here they are written into the notebook.
 */

import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import type { KernelSource, Sources } from './source';
import type { CellOutputs, Outputs } from './view/model/messages';

/** Ids of the cells that this page has started, in all notebooks; JupyterLab shows their outputs as always. */
const started = new Set<string>();
NotebookActions.executionScheduled.connect((_, { cell }) => {
  started.add(cell.model.id);
});

/** The part of JupyterLab's model of a code cell that is used here. */
interface CodeCell {
  readonly outputs: { toJSON(): unknown; fromJSON(outputs: CellOutputs['outputs']): void };
  executionState?: string;
}

export class RestoredOutputs implements IDisposable {
  private source: KernelSource | null = null;
  private disposed = false;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly sources: Sources,
  ) {
    panel.sessionContext.kernelChanged.connect(this.follow, this);
    panel.disposed.connect(this.dispose, this);
    this.follow();
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    this.panel.sessionContext.kernelChanged.disconnect(this.follow, this);
    this.leave();
  }

  private leave(): void {
    this.source?.outputs.disconnect(this.take, this);
    this.source = null;
  }

  private follow(): void {
    this.leave();
    const kernel = this.panel.sessionContext.session?.kernel;
    if (!kernel || this.disposed) return;
    this.source = this.sources.of(kernel);
    this.source.outputs.connect(this.take, this);
  }

  private take(_: unknown, { cells }: Outputs): void {
    // If several pages share the document, the page that has started the cell writes its outputs for all.
    if (this.panel.context.model.collaborative) return;
    for (const one of cells) if (!started.has(one.cell)) this.show(one);
  }

  private show({ cell, running, outputs }: CellOutputs): void {
    const model = this.modelOf(cell);
    if (!model) return;
    const shown = JSON.stringify(model.outputs.toJSON());
    if (shown !== JSON.stringify(outputs)) model.outputs.fromJSON(outputs);
    // Newer versions of JupyterLab draw `[*]` if this says `running`.
    if ('executionState' in model) model.executionState = running ? 'running' : 'idle';
  }

  private modelOf(cell: string): CodeCell | null {
    for (const model of this.panel.content.model?.cells ?? []) {
      if (model.id === cell && model.type === 'code') return model as unknown as CodeCell;
    }
    return null;
  }
}
