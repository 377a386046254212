/** The panel's icon: a mesh of devices. */

import { LabIcon } from '@jupyterlab/ui-components';

const cells = [4, 10, 16]
  .flatMap(y => [4, 10, 16].map(x => `<rect x="${x}" y="${y}" width="4" height="4" rx="1"/>`))
  .join('');

export const panelIcon = new LabIcon({
  name: 'nbdist:devices',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3 jp-icon-selectable" fill="#616161">${cells}</g></svg>`,
});
