/** A little picture of the whole array, cut as it lies on the devices. */

import { HEIGHT, rectanglesOf, WIDTH } from '../../layout/picture_layout';
import type { Scene } from '../../model/scene';
import { prepare } from '../../paint/canvas';
import { paintIndices, paintPieces } from '../../paint/picture_painter';
import type { Look } from '../../paint/theme';
import { element, setAttributes } from '../parts/element';
import { changeOf, type Section } from '../parts/section';

export class ArrayPicture implements Section {
  readonly node = element('canvas', 'nbdist-picture', { role: 'img' });
  private readonly changed = changeOf();

  draw(scene: Scene, look: Look): void {
    const { holding, array, state } = scene;
    const shown = state.hover ?? state.cursor;
    const ring = shown === null ? null : (holding?.of.get(shown) ?? null);
    if (!this.changed(holding, array, look, ring) || !holding || !array) return;
    const g = prepare(this.node, { width: WIDTH, height: HEIGHT });
    if (!g) return;
    const rectangles = rectanglesOf(holding, array.shape.length);
    paintPieces(g, rectangles, look, holding.pieces.length > 1 ? ring : null);
    paintIndices(g, rectangles, holding, array.shape.length, look);
    setAttributes(this.node, {
      'aria-label': `Picture of ${array.path} cut into ${holding.pieces.length} pieces`,
    });
  }
}
