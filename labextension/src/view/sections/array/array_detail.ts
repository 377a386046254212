/** The picked array: its picture, type and spec, and how it is divided. */

import {
  bytesText,
  otherMemoryKind,
  processesText,
  shardingText,
  typeText,
} from '../../model/format';
import { divisionOf, elementsOf, type Division, type Holding } from '../../model/pieces';
import type { Scene } from '../../model/scene';
import type { Array as NamedArray } from '../../model/snapshot';
import type { Look } from '../../paint/theme';
import { ArrayPicture } from './array_picture';
import { ArrayValues } from './array_values';
import { breakable, element, setShown } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

/** Return the pieces in words: `8 pieces of 128 × 128`, `whole`; `8 pieces of different shapes` if they differ. */
function piecesText(holding: Holding, array: NamedArray): string {
  const { pieces, addends } = holding;
  const first = pieces[0];
  if (!first) return 'no pieces';
  const count = pieces.length / addends;
  if (count === 1 || holding.own) return array.shape.length === 0 ? 'a scalar' : 'whole';
  const sizes = first.slices.map(([start, stop]) => stop - start).join(' × ');
  return `${count} pieces of ${isEven(holding) ? sizes : 'different shapes'}`;
}

/** Return whether all pieces have equally many elements. */
function isEven({ pieces }: Holding): boolean {
  return new Set(pieces.map(piece => elementsOf(piece.slices))).size <= 1;
}

/**
 * Return the copies in words: `one copy`, `4 copies of each`.
 *
 * Partial sums are no copies, nor are the arrays that each process has of its own.
 */
function copiesText(holding: Holding, division: Division): string {
  if (holding.own) return 'each process has its own: not copies';
  const each = division.pieces > 1 ? ' of each' : '';
  const alike = new Set(holding.pieces.map(piece => piece.devices.length)).size <= 1;
  const number = division.copies === 1 ? 'one copy' : `${division.copies} copies${each}`;
  const copies = alike ? number : 'some with more copies than others';
  if (holding.addends === 1) return copies;
  const sums = `in ${holding.addends} partial sums, still to be added: not copies`;
  return division.copies === 1 ? sums : `${sums}; ${copies}`;
}

function lines(scene: Scene, array: NamedArray): (string | HTMLElement)[][] {
  const { holding } = scene;
  const division = divisionOf(array, scene.meshes);
  const code = (text: string): HTMLElement => element('code', '', {}, text);
  const type = [code(typeText(array)), ' ', code(shardingText(array))];
  const kind = otherMemoryKind(array);
  if (kind) type.push(' in ', code(kind));
  const shown: (string | HTMLElement)[][] = [type];
  if (holding && division) {
    const each = holding.pieces.length > 1 ? ' each' : '';
    const most = isEven(holding) ? '' : 'up to ';
    const bytes = `${most}${bytesText(division.bytesPerDevice)}${each}`;
    shown.push([`${piecesText(holding, array)}, ${bytes}, ${copiesText(holding, division)}`]);
    const holders = holding.of.size;
    const all = scene.snapshot.devices.length;
    if (holders < all) shown.push([`on ${holders} of ${all} devices`]);
  } else shown.push(['its mesh has not been reported']);
  if (array.processes.length) shown.push([`reported by ${processesText(array.processes)} only`]);
  return shown;
}

export class ArrayDetail implements Section {
  private readonly picture = new ArrayPicture();
  private readonly values: ArrayValues;
  private readonly words = element('div', 'nbdist-caption');
  readonly node = element('section', 'nbdist-whole', { 'aria-label': 'Array' });
  private readonly changed = changeOf();

  constructor(dispatch: Dispatch) {
    this.values = new ArrayValues(dispatch);
    this.node.append(this.picture.node, this.words, this.values.node);
  }

  draw(scene: Scene, look: Look): void {
    const { array, holding, snapshot } = scene;
    setShown(this.node, array !== null);
    if (!array) return;
    setShown(this.picture.node, holding !== null);
    this.picture.draw(scene, look);
    this.values.draw(scene, look);
    if (!this.changed(array, holding, snapshot.devices.length)) return;
    const title = element('b', 'nbdist-path', {}, ...breakable(array.path));
    const rest = lines(scene, array).map(line => element('div', '', {}, ...line));
    this.words.replaceChildren(title, ...rest);
  }
}
