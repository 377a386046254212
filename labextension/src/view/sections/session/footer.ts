/** The last line: sums over devices and arrays. */

import { bytesText, countText, meshText } from '../../model/format';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Device } from '../../model/snapshot';
import { element, setShown } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

type Fact = readonly [label: string, value: string, more: string];

/** Return the live bytes, `18.4 MB a device`, or their range if devices differ by more than a tenth. */
function liveText(devices: readonly Device[]): string | null {
  let [least, most] = [Infinity, -Infinity];
  for (const { live_bytes } of devices) {
    if (live_bytes === null) continue;
    least = Math.min(least, live_bytes);
    most = Math.max(most, live_bytes);
  }
  if (most < 0) return null;
  return most - least <= most / 10
    ? `${bytesText(most)} a device`
    : `${bytesText(least)} to ${bytesText(most)} a device`;
}

/** Return the mesh in context, if all processes that have one agree. */
function contextText(scene: Scene): string | null {
  const ids = new Set(scene.snapshot.processes.map(process => process.context_mesh));
  ids.delete(null);
  const id = [...ids][0];
  const mesh = ids.size === 1 && id ? scene.meshes.get(id) : undefined;
  return mesh ? meshText(mesh) : null;
}

function factsOf(scene: Scene): Fact[] {
  const { arrays, arrays_omitted, devices, state } = scene.snapshot;
  const onPaper = isOnPaper(scene.snapshot);
  const facts: Fact[] = [];
  const context = contextText(scene);
  if (context) facts.push(['mesh in context', context, '']);
  const omitted = arrays_omitted ? `, ${countText(arrays_omitted, 'more', 'more')} not listed` : '';
  const bytes = arrays.reduce((sum, array) => sum + array.nbytes, 0);
  const label =
    { planned: 'planned', compiled: 'with', refused: 'with' }[state as string] ?? 'named';
  if (arrays.length)
    facts.push([label, countText(arrays.length, 'array'), `, ${bytesText(bytes)}${omitted}`]);
  const [device] = devices;
  const taken = device?.memory?.bytes_in_use ?? null;
  if (onPaper && taken !== null)
    facts.push([
      state === 'planned' ? 'they would take' : 'it would take',
      `${bytesText(taken)} a device`,
      '',
    ]);
  const live = liveText(devices);
  if (live) facts.push(['live arrays', live, ', with what Python has not collected yet']);
  return facts;
}

export class Footer implements Section {
  readonly node = element('div', 'nbdist-foot');
  private readonly changed = changeOf();

  draw(scene: Scene): void {
    const facts = factsOf(scene);
    if (!this.changed(JSON.stringify(facts))) return;
    const items = facts.map(([label, value, more]) =>
      element('span', '', {}, `${label} `, element('b', '', {}, value), more),
    );
    this.node.replaceChildren(...items);
    setShown(this.node, items.length > 0);
  }
}
