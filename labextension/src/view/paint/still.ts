/** Hides the still picture of a view while the view itself is live. */

/**
 * Hides every element with `data-nbdist-view="viewId"` in the document.
 *
 * Returns the function that shows them again. A rule rather than a change of the elements: the
 * notebook may make their outputs anew at any time.
 */
export function hideStill(viewId: string): () => void {
  const style = document.createElement('style');
  style.textContent = `[data-nbdist-view="${CSS.escape(viewId)}"] { display: none !important; }`;
  document.head.append(style);
  return () => {
    style.remove();
  };
}
