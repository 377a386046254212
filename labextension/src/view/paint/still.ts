/** Hides the still picture of a view while the view itself is live. */

import { STILL_ATTRIBUTE } from '../model/contract';

/**
 * Hides every element with `viewId` in this attribute in the document.
 *
 * Returns the function that shows them again. A rule rather than a change of the elements: the
 * notebook may make their outputs anew at any time.
 */
export function hideStill(viewId: string): () => void {
  const style = document.createElement('style');
  style.textContent = `[${STILL_ATTRIBUTE}="${CSS.escape(viewId)}"] { display: none !important; }`;
  document.head.append(style);
  return () => {
    style.remove();
  };
}
