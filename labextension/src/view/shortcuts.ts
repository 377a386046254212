/** Keys that are not the view's own: those of the page around it, and the way back to the notebook. */

import { setAttributes } from './sections/parts/parts';

/** Keys with Control that move over a mesh or edit a text, and are the view's own. */
const OWN_WITH_CONTROL: ReadonlySet<string> = new Set(['Home', 'End']);
const EDITING: ReadonlySet<string> = new Set(['a', 'c', 'v', 'x', 'y', 'z']);

const isText = (target: EventTarget | null): boolean =>
  target instanceof HTMLInputElement || target instanceof HTMLSelectElement;

/**
 * Return whether a key typed in the view is a shortcut of the page: a combination that the view does
 * not use, a function key, or Shift and Enter, which runs a cell.
 *
 * Keys without a modifier are not: with them a notebook deletes and moves cells, which nobody means
 * who looks at a mesh. After Escape the notebook has them again.
 */
export function isForThePage({ key, target, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent) {
  if (/^F\d+$/.test(key)) return true;
  if (isText(target) && (ctrlKey || metaKey) && EDITING.has(key.toLowerCase())) return false;
  if (ctrlKey && OWN_WITH_CONTROL.has(key)) return false;
  return ctrlKey || metaKey || altKey || (shiftKey && key === 'Enter');
}

/**
 * Let shortcuts of JupyterLab pass that are typed in `root`; return the function that ends this.
 *
 * Lumino takes keys on the document before they reach the view, except below an element with the
 * attribute `data-lm-suppress-shortcuts`. So it is set for each key on its way down.
 */
export function passShortcuts(root: HTMLElement): () => void {
  const look = (event: KeyboardEvent): void => {
    if (!(event.target instanceof Node) || !root.contains(event.target)) return;
    setAttributes(root, { 'data-lm-suppress-shortcuts': isForThePage(event) ? null : 'true' });
  };
  addEventListener('keydown', look, { capture: true });
  return () => {
    removeEventListener('keydown', look, { capture: true });
  };
}

/** Give the focus to the notebook around `root`, or the one in sight beside it; else to the page. */
export function giveFocusBack(root: HTMLElement): void {
  const inSight = '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook';
  const notebook = root.closest('.jp-Notebook') ?? document.querySelector(inSight);
  if (notebook instanceof HTMLElement) notebook.focus();
  else if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
}
