/** The values of the picked array: the person asks, and the processes answer. */

import type { Values } from '../../model/messages';
import { isOnPaper, type Scene } from '../../model/scene';
import type { Look } from '../../paint/theme';
import { paintValues } from '../../paint/values_painter';
import { element, setAttributes, setShown, setText } from '../parts/element';
import { changeOf, type Dispatch, type Section } from '../parts/section';

export class ArrayValues implements Section {
  private readonly button = element(
    'button',
    'nbdist-button nbdist-ask',
    { type: 'button' },
    'Show values',
  );
  private readonly said = element('p', 'nbdist-soft', { role: 'status' });
  private readonly canvas = element('canvas', 'nbdist-value-picture', { role: 'img' });
  private readonly text = element('div', 'nbdist-value-text', { tabindex: 0 });
  private readonly shown = element('div', 'nbdist-value', {}, this.canvas, this.text);
  readonly node = element('div', 'nbdist-values', {}, this.button, this.said, this.shown);
  private readonly changed = changeOf();
  private path: string | null = null;

  constructor(dispatch: Dispatch) {
    this.button.addEventListener('click', () => {
      if (this.path !== null) dispatch({ type: 'ask', path: this.path });
    });
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
    setText(this.button, answer ? 'Show values again' : 'Show values');
    this.button.disabled = asked;
    setText(this.said, asked ? 'asked for; shown once no cell runs' : saidOf(answer, values.old));
    setShown(this.said, this.said.textContent !== '');
    setShown(this.shown, typeof answer?.text === 'string');
    if (typeof answer?.text !== 'string') return;
    this.text.replaceChildren(...answer.text.split('\n').map(lineOf));
    setAttributes(this.text, { 'aria-label': `Values of ${answer.path}` });
    const { picture } = answer;
    setShown(this.canvas, Boolean(picture));
    if (!picture) return;
    paintValues(this.canvas, picture, look);
    const name = `Picture of the values of ${answer.path}, from ${picture.low} to ${picture.high}`;
    setAttributes(this.canvas, { 'aria-label': name, title: name });
  }
}

/** Make a line of the text: values stay in their columns, and words about them wrap in a narrow view. */
function lineOf(line: string): HTMLElement {
  return element(/^[ [(]/.test(line) ? 'pre' : 'p', 'nbdist-value-line', {}, line);
}

function saidOf(answer: Values | null, old: boolean): string {
  if (typeof answer?.error === 'string') return answer.error;
  return answer && old ? 'from before the last cell' : '';
}
