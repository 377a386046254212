/** The picked array: its picture, type and spec, how it is divided, and its values. */

import { wholeWhy } from '../../model/array_text';
import {
  bytesText,
  metricText,
  otherMemoryKind,
  processesText,
  shardingText,
  typeText,
} from '../../model/format';
import type { Values } from '../../model/messages';
import { divisionOf, elementsOf, type Division, type Holding } from '../../model/pieces';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Array as NamedArray } from '../../model/snapshot';
import { prepare, type Look } from '../../paint/look';
import {
  HEIGHT,
  paintIndices,
  paintPieces,
  paintValues,
  rectanglesOf,
  WIDTH,
} from '../../paint/picture';
import {
  breakable,
  button,
  changeOf,
  elementsIn,
  setAttributes,
  setShown,
  setText,
  type Dispatch,
  type Section,
} from '../parts/parts';

const h = elementsIn('array');

/** Return the shards in words: `8 shards of 128 × 128`, `whole`; `8 shards of different shapes` if they differ. */
function shardsText(holding: Holding, array: NamedArray): string {
  const { pieces, addends } = holding;
  const first = pieces[0];
  if (!first) return 'no shards';
  const count = pieces.length / addends;
  if (count === 1 || holding.own) return array.shape.length === 0 ? 'a scalar' : 'whole';
  const sizes = first.slices.map(([start, stop]) => stop - start).join(' × ');
  return `${count} shards of ${isEven(holding) ? sizes : 'different shapes'}`;
}

/** Return whether all shards have equally many elements. */
function isEven({ pieces }: Holding): boolean {
  return new Set(pieces.map(piece => elementsOf(piece.slices))).size <= 1;
}

/**
 * Return the replicas in words: `not replicated`, `4 replicas of each`.
 *
 * Partial sums are no replicas, nor are the arrays that each process has of its own.
 */
function replicasText(holding: Holding, division: Division): string {
  if (holding.own) return 'each process has its own: not replicas';
  const each = division.pieces > 1 ? ' of each' : '';
  const alike = new Set(holding.pieces.map(piece => piece.devices.length)).size <= 1;
  const number = division.copies === 1 ? 'not replicated' : `${division.copies} replicas${each}`;
  const replicas = alike ? number : 'some with more replicas than others';
  if (holding.addends === 1) return replicas;
  const sums = `in ${holding.addends} partial sums, still to be added: not replicas`;
  return division.copies === 1 ? sums : `${sums}; ${replicas}`;
}

/** Return the lines about an array, each as the parts that are side by side. */
function lines(scene: Scene, array: NamedArray): (string | HTMLElement)[][] {
  const { holding } = scene;
  const division = divisionOf(array, scene.meshes);
  const kind = otherMemoryKind(array);
  const type = [h('code', typeText(array)), ' ', h('code', shardingText(array))];
  const shown = [kind ? [...type, ' in ', h('code', kind)] : type];
  if (holding && division) {
    const each = holding.pieces.length > 1 ? ' each' : '';
    const most = isEven(holding) ? '' : 'up to ';
    const bytes = `${most}${bytesText(division.bytesPerDevice)}${each}`;
    shown.push([`${shardsText(holding, array)}, ${bytes}, ${replicasText(holding, division)}`]);
    const holders = holding.of.size;
    const all = scene.snapshot.devices.length;
    if (holders < all) shown.push([`on ${holders} of ${all} devices`]);
    const why = wholeWhy(array, division);
    if (why) shown.push([`replicated: ${why}`]);
  } else shown.push(['its mesh has not been reported']);
  if (array.processes.length) shown.push([`reported by ${processesText(array.processes)} only`]);
  return shown;
}

/** A little picture of the whole array, cut as it lies on the devices. */
class ArrayPicture implements Section {
  readonly node = h('canvas.picture', { role: 'img' });
  private readonly changed = changeOf();

  draw(scene: Scene, look: Look): void {
    const { holding, array, state } = scene;
    const shown = state.hover ?? state.cursor;
    const ring = shown === null ? null : (holding?.of.get(shown) ?? null);
    if (!this.changed(holding, array, look, ring) || !holding || !array) return;
    const g = prepare(this.node, { width: WIDTH, height: HEIGHT }, look);
    if (!g) return;
    const rectangles = rectanglesOf(holding, array.shape.length);
    paintPieces(g, rectangles, look, holding.pieces.length > 1 ? ring : null);
    paintIndices(g, rectangles, holding, array.shape.length, look);
    setAttributes(this.node, {
      'aria-label': `Picture of ${array.path} cut into ${holding.pieces.length} shards`,
    });
  }
}

/** The values of the picked array: the person asks, and the processes answer. */
class ArrayValues implements Section {
  private readonly ask: HTMLButtonElement;
  private readonly said = h('p+soft', { role: 'status' });
  private readonly canvas = h('canvas.value-picture', { role: 'img' });
  private readonly text = h('div.value-text', { tabindex: 0 });
  private readonly low = h('span');
  private readonly high = h('span');
  private readonly unfinished = h('span.unfinished', 'NaN or infinite');
  private readonly scale: HTMLElement;
  private readonly shown: HTMLElement;
  readonly node: HTMLElement;
  private readonly changed = changeOf();
  private path: string | null = null;

  constructor(dispatch: Dispatch) {
    const numbers = [this.low, h('i.ramp', { 'aria-hidden': 'true' }), this.high];
    this.scale = h('div.scale+wrap', numbers, this.unfinished);
    this.shown = h('div.value+wrap', h('div', this.canvas, this.scale), this.text);
    this.ask = button('Show values', () => {
      if (this.path !== null) dispatch({ type: 'ask', path: this.path });
    });
    this.node = h('div.values+wrap', this.ask, this.said, this.shown);
  }

  draw(scene: Scene, look: Look): void {
    const { values } = scene.state;
    const path = scene.array?.path ?? null;
    const busy = scene.snapshot.state === 'running';
    this.path = path;
    // A plan has no values, nor has a compiled program.
    setShown(this.node, !isOnPaper(scene.snapshot));
    if (!this.changed(path, values, busy, look)) return;
    const answer = values.answer?.path === path ? values.answer : null;
    const asked = values.asked !== null && values.asked === path;
    setText(this.ask, answer ? 'Show values again' : 'Show values');
    this.ask.disabled = asked;
    setText(this.said, asked ? 'asked for; shown once no cell runs' : saidOf(answer, values.old));
    setShown(this.said, this.said.textContent !== '');
    setShown(this.shown, typeof answer?.text === 'string');
    if (typeof answer?.text !== 'string') return;
    this.text.replaceChildren(...answer.text.split('\n').map(lineOf));
    setAttributes(this.text, { 'aria-label': `Values of ${answer.path}` });
    const { picture } = answer;
    setShown(this.canvas, Boolean(picture));
    setShown(this.scale, Boolean(picture));
    if (!picture) return;
    setText(this.low, metricText(picture.low));
    setText(this.high, metricText(picture.high));
    setShown(this.unfinished, picture.values.includes('nan'));
    paintValues(this.canvas, picture, look);
    const name = `Picture of the values of ${answer.path}, from ${picture.low} to ${picture.high}`;
    setAttributes(this.canvas, { 'aria-label': name, title: name });
  }
}

/** Make a line of the text: values stay in their columns, and words about them wrap in a narrow view. */
function lineOf(line: string): HTMLElement {
  return h(/^[ [(]/.test(line) ? 'pre.value-line' : 'p.value-line', line);
}

function saidOf(answer: Values | null, old: boolean): string {
  if (typeof answer?.error === 'string') return answer.error;
  return answer && old ? 'from before the last cell' : '';
}

export class ArrayDetail implements Section {
  private readonly picture = new ArrayPicture();
  private readonly values: ArrayValues;
  private readonly words = h('div.caption');
  readonly node = h('section.whole+wrap', { 'aria-label': 'Array' });
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
    const title = h('b.path', breakable(array.path));
    this.words.replaceChildren(title, ...lines(scene, array).map(line => h('div', line)));
  }
}
