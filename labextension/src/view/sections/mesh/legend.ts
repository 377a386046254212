/** Legend of the mesh: the meanings of the signs that are shown. */

import { isOnPaper, type Scene } from '../../model/scene';
import { LOOKS } from '../../paint/piece_style';
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
  if (exchange?.shares.groups.length) {
    const many = exchange.shares.groups.length > LOOKS;
    const group = exchange.pairs ? 'linked by transfers' : 'one group, which exchanges data';
    const text = many
      ? 'groups; their colours repeat, so point at a device to see its own'
      : `same colour and pattern: ${group}`;
    entries.push({ sign: 'piece', text });
  }
  if (exchange) entries.push({ sign: 'ring', text: 'exchanges with the device pointed at' });
  if (holding) {
    const many = holding.pieces.length > LOOKS;
    const same = many ? 'same colour, pattern and number' : 'same colour and pattern';
    entries.push({ sign: 'piece', text: `${same}: the same piece` });
  }
  if (holding && grid.devices.some(key => !holding.of.has(key))) {
    entries.push({ sign: 'empty', text: 'not here' });
  }
  if (snapshot.processes.some(process => process.state === 'lost')) {
    entries.push({ sign: 'lost', text: 'lost' });
  }
  const planned = isOnPaper(snapshot);
  const what = snapshot.program ? 'the program' : 'planned arrays';
  const bars = {
    limit: planned ? `${what}, of the memory` : 'memory in use, of the limit',
    fullest: planned ? '' : 'live arrays, of the fullest device',
    nothing: '',
  }[fullness.meaning];
  if (bars) entries.push({ sign: 'bar', text: bars });
  return entries;
}

export class Legend implements Section {
  readonly node = h('ul.legend+wrap', { 'aria-label': 'Legend' });
  private readonly changed = changeOf();

  draw(scene: Scene): void {
    const entries = entriesOf(scene);
    if (!this.changed(JSON.stringify(entries))) return;
    const items = entries.map(({ sign, text }) =>
      h('li', h('i', { 'data-sign': sign, 'aria-hidden': 'true' }), text),
    );
    this.node.replaceChildren(...items);
    setShown(this.node, items.length > 0);
  }
}
