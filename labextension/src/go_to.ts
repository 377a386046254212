/** Clicks in a view that lead to a cell and a line of its notebook. */

import type { INotebookTracker, Notebook } from '@jupyterlab/notebook';

import { GO_TO, placeOf } from './view/model/code_place';

/**
 * Return the index of the cell with a number; if none has it, of the last cell that runs, which has no
 * number yet; -1 if there is none.
 */
function indexOf(notebook: Notebook, number: number): number {
  let running = -1;
  for (let i = notebook.widgets.length - 1; i >= 0; i--) {
    const model = notebook.widgets[i]?.model;
    if (!model || !('executionCount' in model)) continue;
    if (model.executionCount === number) return i;
    if (running < 0 && 'executionState' in model && model.executionState === 'running') running = i;
  }
  return running;
}

async function show(notebook: Notebook, number: number, line: number | null): Promise<void> {
  const index = indexOf(notebook, number);
  const cell = notebook.widgets[index];
  if (!cell) return;
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, 'smart');
  if (line !== null) cell.editor?.setCursorPosition({ line: line - 1, column: 0 });
  notebook.mode = line === null ? 'command' : 'edit';
}

/** Follow the clicks in all views of the page, in the notebook around a view, else in the active one. */
export function followClicks(tracker: INotebookTracker): void {
  document.addEventListener(GO_TO, event => {
    const place = placeOf(event);
    const panel =
      tracker.find(({ node }) => event.target instanceof Node && node.contains(event.target)) ??
      tracker.currentWidget;
    if (place && panel) void show(panel.content, place.cell, place.line);
  });
}
