/** Entry point of anywidget for a view in a notebook output, bundled to `nbdist/static/widget.js`. */

import type { AnyModel } from '@anywidget/types';

// All style sheets in one, made by `jlpm build:widget` from `view/view.css`.
import css from '../lib/view.css';
import type { ViewTraits } from './view/model/messages';
import { mount } from './view/view';

/** The widget's synced traits (`nbdist/view/widget.py`). A widget always shows the session of its kernel. */
type Traits = Pick<ViewTraits, 'view_id' | 'focus' | 'form'>;

function render({ model, el }: { model: AnyModel<Traits>; el: HTMLElement }): () => void {
  const style = document.createElement('style');
  style.textContent = css;
  el.append(style);
  const dispose = mount(model, el);
  return () => {
    dispose();
    style.remove();
  };
}

export default { render };
