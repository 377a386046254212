/** Elements of the controls. */

import { setAttributes } from '../view/sections/parts/parts';

type Attributes = Parameters<typeof setAttributes>[1];

/** Make an element of the class `nbdist-lab-NAME`; texts in it are never read as HTML. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  name: string,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  node.className = `nbdist-lab-${name}`;
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}
