/** What the actions on a session do in a notebook: they add a cell and run it, so that it can be repeated. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import type { ActiveSession } from './active_session';
import type { SessionCommand } from './commands';
import { refusal } from './situation';
import { checkStart, type Checked } from './start_check';
import { StartForm, type Check } from './start_form';
import {
  DEFAULTS,
  lastStart,
  lineOf,
  piecesOf,
  startCell,
  valuesOf,
  type StartValues,
} from './start_line';

/** Write `source` into a new cell below the active one, or into that if it is empty, and run it. */
export async function runInNewCell(panel: NotebookPanel, source: string): Promise<void> {
  const { content, sessionContext } = panel;
  const { activeCell, model } = content;
  if (!model) return;
  if (activeCell?.model.type === 'code' && !activeCell.model.sharedModel.getSource().trim()) {
    activeCell.model.sharedModel.setSource(source);
  } else {
    const index = content.activeCellIndex + 1;
    model.sharedModel.insertCell(index, { cell_type: 'code', source });
    content.activeCellIndex = index;
  }
  content.deselectAll();
  await NotebookActions.run(content, sessionContext);
}

const sourcesOf = (panel: NotebookPanel): string[] =>
  Array.from(panel.content.model?.cells ?? [], cell => cell.sharedModel.getSource());

/**
 * Let a person fill in the form.
 *
 * @returns The values and the kernel's last word on them; null if the person does not want to start.
 */
async function askStart(
  values: StartValues,
  check: Check,
): Promise<{ readonly line: string; readonly checked: Checked } | null> {
  for (;;) {
    const { button, value } = await new Dialog({
      title: 'Start a session',
      body: new StartForm(values, check),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Start' })],
      focusNodeSelector: 'input',
    }).launch();
    if (!button.accept || !value) return null;
    // Enter may have come before the answer about the last key.
    const checked = await check(piecesOf(value));
    if (!checked.error) return { line: lineOf(value), checked };
    values = value;
  }
}

async function start(panel: NotebookPanel): Promise<void> {
  const kernel = panel.sessionContext.session?.kernel;
  if (!kernel) return;
  const last = lastStart(sourcesOf(panel));
  const check: Check = pieces => checkStart(kernel, pieces);
  const asked = await askStart(last === null ? DEFAULTS : valuesOf(last), check);
  if (asked) await runInNewCell(panel, startCell(asked.line, asked.checked.loaded));
}

/**
 * Interrupt the cell that the kernel runs, on all processes; then what runs in the background.
 *
 * The kernel is interrupted in any case, which does nothing to one that is idle: a page that was
 * reloaded in the middle of a cell may not know of it, and a cell of its own would wait for that one.
 */
async function interrupt(panel: NotebookPanel, active: ActiveSession): Promise<void> {
  const { kernel } = active.situation;
  await panel.sessionContext.session?.kernel?.interrupt();
  if (kernel !== 'busy') await runInNewCell(panel, '%dist_interrupt');
}

async function confirmed({ label, question }: SessionCommand): Promise<boolean> {
  if (!question) return true;
  const { button } = await showDialog({
    title: question.title,
    body: question.text,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })],
  });
  return button.accept;
}

/** Do what a command says with the active notebook; do nothing if it makes no sense now. */
export async function act(command: SessionCommand, active: ActiveSession): Promise<void> {
  const { action, cell } = command;
  const panel = active.notebook;
  if (!panel || refusal(action, active.situation) !== null) return;
  if (action === 'interrupt') {
    await interrupt(panel, active);
    return;
  }
  // From the first click on: pressed twice, the second is refused.
  await active.during(panel, action, async () => {
    if (action === 'start') await start(panel);
    else if (cell !== null && (await confirmed(command))) await runInNewCell(panel, cell);
  });
}
