/** The side panel: it shows the session of the active notebook, even if no output there has a view. */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { LivePlace } from './place';
import type { Sources } from './source';

const cells = [4, 10, 16]
  .flatMap(y => [4, 10, 16].map(x => `<rect x="${x}" y="${y}" width="4" height="4" rx="1"/>`))
  .join('');

/** The panel's icon: a mesh of devices. */
const panelIcon = new LabIcon({
  name: 'nbdist:devices',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3 jp-icon-selectable" fill="#616161">${cells}</g></svg>`,
});

export class DevicesPanel extends Widget {
  private readonly message = document.createElement('p');
  private readonly place: LivePlace;
  private context: ISessionContext | null = null;

  constructor(
    private readonly tracker: INotebookTracker,
    private readonly sources: Sources,
  ) {
    super();
    this.id = 'nbdist-devices';
    this.addClass('nbdist-lab-panel');
    this.title.icon = panelIcon;
    this.title.caption = 'Devices (nbdist)';
    this.message.className = 'nbdist-lab-message';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Devices');
    this.node.append(this.message);
    const traits = { view_id: '', focus: '', session: '', form: 'view' as const, packed: null };
    this.place = new LivePlace(this.node, traits, live => {
      this.message.hidden = live;
      this.writeMessage();
    });
    tracker.currentChanged.connect(this.followNotebook, this);
    this.followNotebook();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.tracker.currentChanged.disconnect(this.followNotebook, this);
    this.context?.kernelChanged.disconnect(this.followKernel, this);
    this.place.dispose();
    super.dispose();
  }

  private followNotebook(): void {
    const context = this.tracker.currentWidget?.sessionContext ?? null;
    if (context !== this.context) {
      this.context?.kernelChanged.disconnect(this.followKernel, this);
      this.context = context;
      context?.kernelChanged.connect(this.followKernel, this);
    }
    this.followKernel();
  }

  private followKernel(): void {
    const kernel = this.context?.session?.kernel ?? null;
    this.place.follow(kernel && this.sources.of(kernel));
    this.writeMessage();
  }

  /** Write why there is nothing to see. */
  private writeMessage(): void {
    const text = !this.context
      ? 'Open a notebook to see its devices here.'
      : this.context.session?.kernel
        ? 'This notebook has no nbdist session yet. %load_ext nbdist and then %dist_init start one.'
        : 'This notebook has no kernel.';
    if (this.message.textContent !== text) this.message.textContent = text;
  }
}
