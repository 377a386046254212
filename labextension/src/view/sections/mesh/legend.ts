/** Legend of the mesh: the meanings of the signs that are shown. */

import { isOnPaper, type Scene } from '../../model/scene';
import { type Look } from '../../paint/look';
import { isRamp, rampAt } from '../../paint/piece_style';
import { changeOf, elementsIn, setShown, type Section } from '../parts/parts';

const h = elementsIn('mesh');

interface Entry {
  readonly sign: string;
  readonly text: string;
}

function entriesOf(scene: Scene): Entry[] {
  const { exchange, fullness, grid, snapshot } = scene;
  const holding = exchange ? null : scene.holding;
  const entries: Entry[] = [];
  const groups = exchange?.shares.groups.length ?? 0;
  if (exchange && groups) {
    const what = exchange.pairs ? 'chain of transfers' : 'group, which exchanges data';
    entries.push(
      isRamp(groups)
        ? { sign: 'ramp', text: `groups 0 to ${groups - 1}` }
        : { sign: 'shard', text: `same colour = same ${what}` },
    );
  }
  if (exchange) entries.push({ sign: 'ring', text: 'exchanges with the device pointed at' });
  if (holding) {
    const count = holding.pieces.length;
    entries.push(
      isRamp(count)
        ? { sign: 'ramp', text: `shards 0 to ${count - 1}: same colour and number = same shard` }
        : { sign: 'shard', text: 'same colour = same shard' },
    );
  }
  if (holding && grid.devices.some(key => !holding.of.has(key))) {
    entries.push({ sign: 'empty', text: 'holds no shard' });
  }
  if (snapshot.processes.some(process => process.state === 'lost')) {
    entries.push({ sign: 'lost', text: 'lost' });
  }
  const planned = isOnPaper(snapshot);
  const what = snapshot.program ? 'memory used by the program' : 'memory of the planned arrays';
  const bars = {
    limit: planned ? what : 'memory in use, relative to its limit',
    fullest: planned ? '' : 'memory, relative to the fullest device',
    nothing: '',
  }[fullness.meaning];
  if (bars) entries.push({ sign: 'bar', text: bars });
  return entries;
}

export class Legend implements Section {
  readonly node = h('ul.legend+wrap', { 'aria-label': 'Legend' });
  private readonly changed = changeOf();

  draw(scene: Scene, { theme }: Look): void {
    const entries = entriesOf(scene);
    if (!this.changed(JSON.stringify(entries), theme)) return;
    const items = entries.map(({ sign, text }) =>
      h('li', h('i', { 'data-sign': sign, 'aria-hidden': 'true' }), text),
    );
    const stops = [0, 0.25, 0.5, 0.75, 1].map(part => rampAt(part, theme)).join(', ');
    this.node.style.setProperty('--ramp', `linear-gradient(90deg, ${stops})`);
    this.node.replaceChildren(...items);
    setShown(this.node, items.length > 0);
  }
}
