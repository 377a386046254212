/** Creation and update of elements without a framework. */

type Child = Node | string;
type Attributes = Readonly<Record<string, string | number | boolean | null>>;

/** Set attributes; `false` and `null` remove one, `true` sets it empty. Equal values are not set again. */
export function setAttributes(node: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null) node.removeAttribute(name);
    else {
      const text = value === true ? '' : String(value);
      if (node.getAttribute(name) !== text) node.setAttribute(name, text);
    }
  }
}

/** Make an element with a class, attributes and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (className) node.className = className;
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/** Set the text if it differs, so that a selection or a screen reader is not disturbed. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Return a name that may break into lines after its dots, brackets and underscores, if it is too long for one. */
export function breakable(name: string): (string | HTMLElement)[] {
  return name
    .split(/(?<=[.\]_])/)
    .flatMap((part, i) => (i ? [document.createElement('wbr'), part] : [part]));
}

/** Show or hide an element. */
export function setShown(node: HTMLElement, shown: boolean): void {
  if (node.hidden === shown) node.hidden = !shown;
}

/**
 * The children of an element, one for each key, in order.
 *
 * Only changed children are made or removed. The others stay the same elements from one drawing to
 * the next, so hovering, focus and text selection survive updates.
 */
export class KeyedChildren<Item, Node_ extends HTMLElement = HTMLElement> {
  private readonly nodes = new Map<string, Node_>();

  constructor(
    private readonly parent: HTMLElement,
    private readonly make: (item: Item) => Node_,
    private readonly update: (node: Node_, item: Item) => void,
  ) {}

  draw(items: readonly Item[], keyOf: (item: Item) => string): void {
    const keys = new Set(items.map(keyOf));
    for (const [key, node] of this.nodes) {
      if (keys.has(key)) continue;
      node.remove();
      this.nodes.delete(key);
    }
    items.forEach((item, i) => {
      const key = keyOf(item);
      let node = this.nodes.get(key);
      if (!node) this.nodes.set(key, (node = this.make(item)));
      this.update(node, item);
      const place = this.parent.children[i] ?? null;
      if (place !== node) this.parent.insertBefore(node, place);
    });
  }
}
