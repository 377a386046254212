/** The one polite live region: it announces what the person's own choice did, never that data changed. */

import { element, setText } from '../parts/element';

export class LiveRegion {
  readonly node = element('div', 'nbdist-hidden', { role: 'status', 'aria-live': 'polite' });

  readonly say = (text: string): void => {
    setText(this.node, text);
  };
}
