/** The still picture of a view, hidden while the view itself is live. */

import { STILL_ATTRIBUTE } from '../model/contract';

/**
 * Hide every element of the document that has `viewId` in the attribute `STILL_ATTRIBUTE`.
 *
 * Returns the function that shows them again. Adds a style rule and does not change the elements,
 * since the notebook may make its outputs anew at any time.
 */
export function hideStill(viewId: string): () => void {
  const style = document.createElement('style');
  style.textContent = `[${STILL_ATTRIBUTE}="${CSS.escape(viewId)}"] { display: none !important; }`;
  document.head.append(style);
  return () => {
    style.remove();
  };
}
