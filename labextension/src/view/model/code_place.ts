/** Places in the code of a notebook, to which a click in the view leads; the page around it goes there. */

/** A cell by the number it has or will have in its brackets, and a line of it from 1. */
export interface CodePlace {
  readonly cell: number;
  readonly line: number | null;
}

/** The event that bubbles from the view to the page. */
export const GO_TO = 'nbdist:go-to';

/** Ask the page around `node` to show a place; nothing happens where no page listens. */
export function goTo(node: HTMLElement, place: CodePlace): void {
  node.dispatchEvent(new CustomEvent<CodePlace>(GO_TO, { bubbles: true, detail: place }));
}

/** Return the place that an event of the view asks for; null for any other event. */
export function placeOf(event: Event): CodePlace | null {
  if (!(event instanceof CustomEvent)) return null;
  const detail: unknown = event.detail;
  if (typeof detail !== 'object' || detail === null) return null;
  const { cell, line } = detail as Partial<CodePlace>;
  return typeof cell === 'number' ? { cell, line: line ?? null } : null;
}
