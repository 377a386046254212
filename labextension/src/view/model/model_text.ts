/** Texts about a model: its name, its size, and the bytes that its devices hold. */

import { MOST_NAMED_DEVICES } from './contract';
import { bytesText, countText, deviceText, processesText } from './format';
import type { Device, DeviceBytes, Model } from './snapshot';

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

/** Return the size of a model: `14 variables, 83 MB in one copy`. */
export function sizeText({ variables, variables_omitted }: Model): string {
  const bytes = variables.reduce((sum, { nbytes }) => sum + nbytes, 0);
  const count = countText(variables.length + variables_omitted, 'variable');
  if (variables_omitted) return `${count}, ${variables.length} of them listed`;
  return `${count}, ${bytesText(bytes)} in one copy`;
}

/**
 * Return the bytes that devices hold: `62.5 MB on each of 4 devices`; if devices differ, one text
 * for each number of bytes.
 */
export function totalsTexts(model: Model, devices: ReadonlyMap<string, Device>): string[] {
  return model.totals.map(total => totalText(total, devices, model.totals.length > 1));
}

function totalText(
  { devices: keys, nbytes }: DeviceBytes,
  devices: ReadonlyMap<string, Device>,
  named: boolean,
): string {
  const names = keys.slice(0, MOST_NAMED_DEVICES).map(key => {
    const device = devices.get(key);
    return device ? deviceText(device) : key;
  });
  if (!named && keys.length > 1) return `${bytesText(nbytes)} on each of ${keys.length} devices`;
  const more =
    keys.length > MOST_NAMED_DEVICES ? ` and ${keys.length - MOST_NAMED_DEVICES} more` : '';
  return `${bytesText(nbytes)} on ${names.join(', ')}${more}`;
}
