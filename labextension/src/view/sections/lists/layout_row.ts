/** One row of a model's layout: a variable, the rule that matched it, and its layout on the devices. */

import { linesFor } from '../../layout/list_form';
import { entryParts, specLength, specWords, type SpecPart } from '../../model/array_text';
import { axesOf } from '../../model/distribution_text';
import { bytesText, typeText } from '../../model/format';
import type { Variable } from '../../model/snapshot';
import { specNode } from './array_row';
import { element, setAttributes } from '../parts/element';

/** Sizes in CSS pixels, the same as in the style sheet. */
const PADDING = 24;
const GAP = 12;
const LINE = 19;
const ROW_PADDING = 9;
/** The least widths of the columns after the path, for their headings. */
const HEADINGS = [44, 44, 44, 56, 44, 44];

export interface VariableTexts {
  readonly path: string;
  readonly type: string;
  readonly group: string;
  /** The pattern that matched, or `no rule`; empty if there are no rules. */
  readonly rule: string;
  readonly matched: boolean;
  readonly axes: readonly SpecPart[];
  readonly spec: readonly SpecPart[];
  readonly bytes: string;
  /**
   * The problem of the variable: `missed` if it is whole although there are rules, `differs` if it
   * lies otherwise than its rule asks.
   */
  readonly flag: 'missed' | 'differs' | null;
}

const words = (text: string): SpecPart[] => [{ text, kind: 'text' }];

function flagOf({ missed, axes, spec }: Variable): VariableTexts['flag'] {
  if (missed) return 'missed';
  if (axes === null) return null;
  const held = spec?.map(names => names.join()) ?? [];
  // A layout may have fewer entries than the variable has dimensions: the other dimensions are whole.
  const asked = held.map((_, d) => axes[d] ?? '');
  return spec === null || asked.join('|') !== held.join('|') ? 'differs' : null;
}

export function textsOfVariable(variable: Variable, ruled: boolean): VariableTexts {
  const { axes, spec, rule } = variable;
  return {
    path: variable.path,
    type: typeText(variable).replaceAll(' ', ''),
    group: variable.group,
    rule: rule ?? (ruled ? 'no rule' : ''),
    matched: rule !== null,
    axes: axes === null ? [] : entryParts(axesOf(axes)),
    spec: spec === null ? words('no mesh') : entryParts(spec),
    bytes: bytesText(variable.device_bytes),
    flag: flagOf(variable),
  };
}

export const FLAGS: Readonly<Record<'missed' | 'differs', string>> = {
  missed: 'whole on every device: no rule matched it',
  differs: 'not laid out as its rule asks',
};

const listed = (parts: readonly SpecPart[]): string => parts.map(part => part.text).join('');

const ruleWords = ({ rule, matched }: VariableTexts): string => (matched ? `rule ${rule}` : rule);

/** Return the row in words, for screen readers. */
export function labelOfVariable(texts: VariableTexts): string {
  const asked = texts.axes.length ? [`asks for ${listed(texts.axes)}`] : [];
  const flag = texts.flag ? [FLAGS[texts.flag]] : [];
  const rule = texts.rule && texts.flag !== 'missed' ? [ruleWords(texts)] : [];
  const lies = [`lies ${listed(texts.spec)}`, `${texts.bytes} a device`];
  return [texts.path, texts.type, texts.group, ...rule, ...asked, ...flag, ...lies].join(', ');
}

export interface LayoutForm {
  readonly kind: 'line' | 'stacked';
  /** Most characters of a path. */
  readonly nameLength: number;
  readonly columns: string;
  height(texts: VariableTexts): number;
}

const longest = (values: readonly number[]): number => values.reduce((a, b) => Math.max(a, b), 0);

/** Return a form with one line for each row if the longest texts fit in `width` pixels, else with several. */
export function layoutForm(
  texts: readonly VariableTexts[],
  width: number,
  character: number,
): LayoutForm {
  const lengths = [
    longest(texts.map(t => t.type.length)),
    longest(texts.map(t => t.group.length)),
    longest(texts.map(t => t.rule.length)),
    longest(texts.map(t => specLength(t.axes))),
    longest(texts.map(t => specLength(t.spec))),
    longest(texts.map(t => t.bytes.length)),
  ];
  const ruled = texts.some(t => t.rule);
  const columns = lengths.map((length, i) =>
    ruled || length ? Math.max(HEADINGS[i] ?? 0, Math.ceil(length * character) + 4) : 0,
  );
  const others = columns.reduce((a, b) => a + b + GAP, 0);
  const whole = longest(texts.map(t => t.path.length + 2));
  if (width - PADDING - others >= whole * character) {
    const template = ['minmax(0, 1fr)', ...columns.map(pixels => `${pixels}px`)].join(' ');
    const height = LINE + ROW_PADDING + 1;
    return { kind: 'line', nameLength: whole, columns: template, height: () => height };
  }
  const perLine = Math.max(12, Math.floor((width - PADDING) / character));
  return {
    kind: 'stacked',
    nameLength: perLine - (lengths[5] ?? 0) - 5,
    columns: 'minmax(0, 1fr) auto',
    height: t => {
      const room = perLine - t.group.length - 2;
      return ROW_PADDING + LINE * (1 + linesFor(stackedWords(t), room));
    },
  };
}

/**
 * Return whether the line below the path says what the rule asks for: only if the variable lies
 * otherwise, or no rule matched it.
 */
const saysAsked = (texts: VariableTexts): boolean => texts.flag === 'differs' || !texts.matched;

/** Return the lengths, in characters, of the parts below the path between which a line may break. */
function stackedWords(texts: VariableTexts): number[] {
  const lengths = [texts.type.length, ...specWords(texts.spec)];
  if (texts.matched) lengths.push('rule'.length);
  if (texts.rule) lengths.push(texts.rule.length);
  if (texts.axes.length && saysAsked(texts)) {
    lengths.push('asks for'.length, ...specWords(texts.axes));
  }
  return lengths;
}

export interface LayoutRowState {
  readonly id: string;
  readonly name: string;
  readonly picked: boolean;
  readonly active: boolean;
  readonly pickable: boolean;
  /** Whether room is kept for a flag. */
  readonly signs: boolean;
  readonly position: number;
  readonly count: number;
}

const SIGN: Readonly<Record<'missed' | 'differs', string>> = { missed: '!', differs: '≠' };

export function layoutRow(
  texts: VariableTexts,
  state: LayoutRowState,
  kind: LayoutForm['kind'],
): HTMLElement {
  const cut = state.name !== texts.path;
  const name = element('span', 'nbdist-name', { title: cut ? texts.path : null }, state.name);
  const { flag } = texts;
  const attributes = { title: flag && FLAGS[flag] };
  const sign = element('span', 'nbdist-flag', attributes, flag ? SIGN[flag] : '');
  const signs = flag || (state.signs && kind === 'line') ? [sign] : [];
  const path = element('span', 'nbdist-array-name', {}, ...signs, name);
  const type = element('span', 'nbdist-type', {}, texts.type);
  const group = element('span', 'nbdist-group', {}, texts.group);
  const rule = element('span', 'nbdist-rule', { 'data-none': !texts.matched }, texts.rule);
  const [axes, spec] = [specNode(texts.axes), specNode(texts.spec)];
  const bytes = element('span', 'nbdist-bytes', {}, texts.bytes);
  const row = element('div', 'nbdist-array', { role: 'option', id: state.id });
  if (kind === 'line') row.append(path, type, group, rule, axes, spec, bytes);
  else {
    const by = texts.rule ? [texts.matched ? ' rule ' : ' ', rule] : [];
    const asked = texts.axes.length && saysAsked(texts) ? [' asks for ', axes] : [];
    const lies = element('span', 'nbdist-lies', {}, type, ' ', spec, ...by, ...asked);
    row.append(path, bytes, lies, group);
  }
  setAttributes(row, {
    'aria-label': labelOfVariable(texts),
    'aria-selected': state.picked ? 'true' : 'false',
    'aria-disabled': state.pickable ? null : 'true',
    'aria-posinset': state.position + 1,
    'aria-setsize': state.count,
    'data-active': state.active,
    'data-flag': flag,
  });
  return row;
}
