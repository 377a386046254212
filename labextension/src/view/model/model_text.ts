/** Texts about a model: its name, its size, the bytes that its devices hold, and each variable's layout. */

import { axesParts, entryParts, type SpecPart } from './array_text';
import { MOST_NAMED_DEVICES } from './contract';
import {
  bytesText,
  countText,
  deviceShort,
  processesText,
  typeText,
  type DeviceNumbers,
} from './format';
import type { DeviceBytes, Model, Variable } from './snapshot';

/** Return the key of a model. Models with one path differ in the processes that have them. */
export const keyOfModel = ({ path, processes }: Model): string => `${path} ${processes.join()}`;

/** Return the chosen model, else another version of its path, else the first. */
export function modelOf(models: readonly Model[], key: string | null): Model | null {
  const path = key?.split(' ')[0];
  const chosen = models.find(model => keyOfModel(model) === key);
  return chosen ?? models.find(model => model.path === path) ?? models[0] ?? null;
}

/** Return the title of a model, `model, Sequential`, with its processes if not all have it. */
export function titleOf({ path, kind, processes }: Model): string {
  return `${path}, ${kind}${processes.length ? ` (${processesText(processes)})` : ''}`;
}

/** Return the size of a model: `14 variables, 83 MB`. */
export function sizeText({ variables, variables_omitted }: Model): string {
  const bytes = variables.reduce((sum, { nbytes }) => sum + nbytes, 0);
  const count = countText(variables.length + variables_omitted, 'variable');
  if (variables_omitted) return `${count}, ${variables.length} of them listed`;
  return `${count}, ${bytesText(bytes)}`;
}

/**
 * Return the bytes that devices hold: `62.5 MB on each of 4 devices`; if devices differ, one text
 * for each number of bytes.
 */
export function totalsTexts(model: Model, numbers: DeviceNumbers): string[] {
  return model.totals.map(total => totalText(total, numbers, model.totals.length > 1));
}

function totalText(
  { devices: keys, nbytes }: DeviceBytes,
  numbers: DeviceNumbers,
  named: boolean,
): string {
  const names = keys.slice(0, MOST_NAMED_DEVICES).map(key => deviceShort(key, numbers));
  if (!named && keys.length > 1) return `${bytesText(nbytes)} on each of ${keys.length} devices`;
  const more =
    keys.length > MOST_NAMED_DEVICES ? ` and ${keys.length - MOST_NAMED_DEVICES} more` : '';
  return `${bytesText(nbytes)} on ${names.join(', ')}${more}`;
}

/** The texts of the row of a variable. */
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
    axes: axes === null ? [] : axesParts(axes),
    spec: spec === null ? [{ text: 'no mesh', kind: 'text' }] : entryParts(spec),
    bytes: bytesText(variable.device_bytes),
    flag: flagOf(variable),
  };
}

export const FLAGS: Readonly<Record<'missed' | 'differs', string>> = {
  missed: 'replicated on every device: no rule matched it',
  differs: 'not laid out as its rule asks',
};

const listed = (parts: readonly SpecPart[]): string => parts.map(part => part.text).join('');

const ruleWords = ({ rule, matched }: VariableTexts): string => (matched ? `rule ${rule}` : rule);

/** Return what the text of a row says in signs, or not at all. */
export function describeVariable(texts: VariableTexts): string {
  const asked = texts.axes.length ? [`asks for ${listed(texts.axes)}`] : [];
  const flag = texts.flag ? [FLAGS[texts.flag]] : [];
  const rule = texts.rule && texts.flag !== 'missed' ? [ruleWords(texts)] : [];
  const lies = [`spec ${listed(texts.spec)}`, `${texts.bytes} per device`];
  return [texts.path, texts.group, ...rule, ...asked, ...flag, ...lies].join(', ');
}

/**
 * Return whether the line below the path says what the rule asks for: only if the variable lies
 * otherwise, or no rule matched it.
 */
export const saysAsked = (texts: VariableTexts): boolean =>
  texts.flag === 'differs' || !texts.matched;
