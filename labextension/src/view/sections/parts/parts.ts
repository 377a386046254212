/** What all sections are made of: their elements and classes, and drawings that touch only what changed. */

import { breaksAfter, type SpecPart } from '../../model/array_text';
import { LONG, NAME_BREAKS } from '../../model/format';
import type { Scene } from '../../model/scene';
import type { Action } from '../../model/state';
import type { Look } from '../../paint/look';

/** One part of the view: an element, and a drawing that touches only what changed. */
export interface Section {
  readonly node: HTMLElement;
  draw(scene: Scene, look: Look): void;
}

export type Dispatch = (action: Action) => void;
/** Function that has a screen reader say a text. */
export type Announce = (text: string) => void;

/** A folder of `sections/`. Its style sheet has its name, and so begin the classes that the sheet defines. */
type Sheet = 'array' | 'device' | 'lists' | 'mesh' | 'page' | 'parts' | 'program' | 'session';

type Tag = keyof HTMLElementTagNameMap;
/** A tag, and names of classes: `.name` of the section's own sheet, `+name` of the sheet of `parts`. */
type Named = Tag | `${Tag}.${string}` | `${Tag}+${string}`;
type TagOf<Written extends string> = Written extends `${infer Found extends Tag}.${string}`
  ? Found
  : Written extends `${infer Found extends Tag}+${string}`
    ? Found
    : Written extends Tag
      ? Written
      : never;

type Attributes = Readonly<Record<string, string | number | boolean | null>>;
/** A child; what is false, null or empty is left out. */
export type Child = Node | string | false | null | readonly Child[];

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

const isAttributes = (first: Attributes | Child | undefined): first is Attributes =>
  typeof first === 'object' && first !== null && !Array.isArray(first) && !('nodeType' in first);

/**
 * Return the function that makes the elements of one section.
 *
 * `h('b.name+soft', { title }, text)` makes a `b` of the classes `nbdist-SHEET-name` and
 * `nbdist-parts-soft`. A section cannot name the classes of another one, so no two style sheets can
 * mean the same element.
 */
export const elementsIn =
  (sheet: Sheet) =>
  <Written extends Named>(
    written: Written,
    ...rest: [Attributes, ...Child[]] | Child[]
  ): HTMLElementTagNameMap[TagOf<Written>] => {
    const [tag = '', ...names] = written.split(/(?=[.+])/);
    const node = document.createElement(tag as TagOf<Written>);
    const classes = names.map(
      name => `nbdist-${name.startsWith('+') ? 'parts' : sheet}-${name.slice(1)}`,
    );
    if (classes.length) node.className = classes.join(' ');
    const [first, ...others] = rest;
    if (isAttributes(first)) setAttributes(node, first);
    const children = isAttributes(first) ? others : rest;
    const shown = shownOf(children as readonly Child[]);
    node.append(...shown);
    markLong(node, shown);
    return node;
  };

const shownOf = (children: readonly Child[]): (Node | string)[] =>
  children.flatMap(child => {
    if (!child) return [];
    return typeof child === 'string' || 'nodeType' in child ? child : shownOf(child);
  });

const h = elementsIn('parts');

/** Mark an element whose own words, `children`, are long. */
function markLong(node: Element, children: readonly (Node | string)[]): void {
  const own = children.reduce(
    (sum, child) => sum + (typeof child === 'string' ? child.length : 0),
    0,
  );
  if (own > LONG) setAttributes(node, { 'data-long': true });
}

/** Set the text if it differs, so that a selection or a screen reader is not disturbed. */
export function setText(node: Element, text: string): void {
  if (node.textContent === text) return;
  node.textContent = text;
  setAttributes(node, { 'data-long': text.length > LONG });
}

/** Show or hide an element. */
export function setShown(node: HTMLElement, shown: boolean): void {
  if (node.hidden === shown) node.hidden = !shown;
}

/** Return a name that may break into lines after its dots, brackets and underscores, if it is too long for one. */
export const breakable = (name: string): (string | HTMLElement)[] =>
  name.split(NAME_BREAKS).flatMap((part, i) => (i ? [h('wbr'), part] : [part]));

/** Make a spec with its axes in boxes. */
export const specNode = (spec: readonly SpecPart[]): HTMLElement =>
  h(
    'span.spec',
    wordsOf(spec).flatMap((word, i) => [i ? ' ' : '', h('span.word', word.map(partNode))]),
  );

const partNode = ({ kind, text }: SpecPart): Child =>
  kind === 'text' ? text : h(kind === 'sum' ? 'span.chip.chip-sum' : 'span.chip', text);

/** Return the parts between which a line may break, without the spaces there. */
function wordsOf(spec: readonly SpecPart[]): SpecPart[][] {
  const words: SpecPart[][] = [[]];
  for (const part of spec) {
    words[words.length - 1]?.push({ ...part, text: part.text.trimEnd() });
    if (breaksAfter(part)) words.push([]);
  }
  return words;
}

/** Make a button of a line of text. */
export function button(text: string, pressed: () => void, attributes: Attributes = {}) {
  const node = h('button.button', { type: 'button', ...attributes }, text);
  node.addEventListener('click', pressed);
  return node;
}

/** A part of the page with a heading, which folds it. */
export class Fold {
  private readonly arrow = h('span.fold-arrow', { 'aria-hidden': 'true' });
  private readonly title = h('span');
  private readonly head = h('button.fold-head', { type: 'button' }, this.arrow, this.title);
  readonly node: HTMLElement;

  constructor(title: string, bodies: readonly HTMLElement[]) {
    this.name(title);
    this.node = h('div.fold', h('h3.fold-title', this.head), bodies);
    this.head.addEventListener('click', () => {
      this.fold(!('folded' in this.node.dataset));
    });
    this.fold(false);
  }

  name(title: string): void {
    setText(this.title, title);
  }

  private fold(folded: boolean): void {
    setAttributes(this.node, { 'data-folded': folded });
    setAttributes(this.head, { 'aria-expanded': String(!folded) });
  }
}

/** Make a tab. Left and Right lead to the tabs beside it, around the ends, past those that are hidden. */
export function tab(text: string, panel: string, choose: () => void): HTMLButtonElement {
  const node = button(text, choose, { role: 'tab', 'aria-controls': panel });
  node.addEventListener('keydown', event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const tabs = [...(node.parentElement?.children ?? [])].filter(
      other => other instanceof HTMLElement && !other.hidden,
    ) as HTMLElement[];
    const next = tabs[(tabs.indexOf(node) + step + tabs.length) % tabs.length];
    next?.click();
    next?.focus();
  });
  return node;
}

export function setChosen(node: Element, chosen: boolean): void {
  setAttributes(node, { 'aria-selected': String(chosen), tabindex: chosen ? 0 : -1 });
}

/** Make a table with a heading, and a body whose rows are made later. */
export function table(headings: readonly string[], body: HTMLElement, ...before: Child[]) {
  const cells = headings.map(text => h('th', { scope: 'col' }, text));
  return h('table.table', before, h('thead', h('tr', cells)), body);
}

/** Return a function that returns whether any of its values differs from the call before. */
export function changeOf(): (...values: readonly unknown[]) => boolean {
  let last: readonly unknown[] | null = null;
  return (...values) => {
    const same =
      last?.length === values.length && values.every((value, i) => Object.is(value, last?.[i]));
    last = values;
    return !same;
  };
}

/** What shows one item of a list. */
interface Shown<Item> {
  readonly node: HTMLElement;
  draw(item: Item): void;
}

/**
 * The children of an element, one for each key, in order.
 *
 * Only changed children are made or removed. The others stay the same elements from one drawing to
 * the next, so hovering, focus and text selection survive updates.
 */
export class KeyedChildren<Item> {
  private readonly shown = new Map<string, Shown<Item>>();

  constructor(
    private readonly parent: HTMLElement,
    private readonly make: (item: Item) => Shown<Item>,
  ) {}

  draw(items: readonly Item[], keyOf: (item: Item) => string): void {
    const keys = new Set(items.map(keyOf));
    for (const [key, { node }] of this.shown) {
      if (keys.has(key)) continue;
      node.remove();
      this.shown.delete(key);
    }
    items.forEach((item, i) => {
      const key = keyOf(item);
      let shown = this.shown.get(key);
      if (!shown) this.shown.set(key, (shown = this.make(item)));
      shown.draw(item);
      const place = this.parent.children[i] ?? null;
      if (place !== shown.node) this.parent.insertBefore(shown.node, place);
    });
  }
}
