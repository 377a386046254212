/** The session panel: the controls, and below them the view of the session of the active notebook. */

import { LabIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import { Panel, Widget } from '@lumino/widgets';

import type { ActiveSession } from './controls/active_session';
import { SessionBar } from './controls/bar';
import { element } from './controls/element';
import type { Situation } from './controls/situation';
import { LivePlace } from './place';
import type { ViewTraits } from './view/model/messages';
import { setShown, setText } from './view/sections/parts/parts';

const cells = [4, 10, 16]
  .flatMap(y => [4, 10, 16].map(x => `<rect x="${x}" y="${y}" width="4" height="4" rx="1"/>`))
  .join('');

/** The panel's icon: a mesh of devices. */
export const panelIcon = new LabIcon({
  name: 'nbdist:devices',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3 jp-icon-selectable" fill="#616161">${cells}</g></svg>`,
});

/** The id of the panel at the side. */
export const PANEL_ID = 'nbdist-devices';

/** Return what a person can do while there is nothing to see. */
function messageOf({ notebook, kernel, session, underWay }: Situation): string {
  if (session || (underWay && kernel === 'busy')) return '';
  if (!notebook) return 'Open a notebook to start a session for it.';
  if (kernel === 'none') return 'This notebook has no kernel. Choose one in the menu Kernel.';
  if (kernel === 'dead')
    return 'The kernel has died, and its session with it. Restart it in the menu Kernel.';
  return (
    'Start… adds a cell with %dist_init to the notebook and runs it. It starts processes on this ' +
    'machine or on your hosts, and joins them to one cluster. A cell that begins with %%dist then ' +
    'runs on all of them.'
  );
}

export class SessionPanel extends Panel {
  private readonly view = new Widget();
  private readonly message = element('p', 'message');
  private readonly place: LivePlace;

  constructor(
    private readonly active: ActiveSession,
    commands: CommandRegistry,
    form: ViewTraits['form'] = 'view',
  ) {
    super();
    this.addClass('nbdist-lab-panel');
    this.title.icon = panelIcon;
    this.title.caption = 'Session (nbdist)';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Session');
    this.view.addClass('nbdist-lab-view');
    this.view.node.append(this.message);
    // A tab of one section has no buttons: they are in the panel.
    if (form === 'view') this.addWidget(new SessionBar(active, commands));
    this.addWidget(this.view);
    const traits = { view_id: '', focus: '', session: '', form, packed: null };
    this.place = new LivePlace(this.view.node, traits, () => undefined);
    active.changed.connect(this.follow, this);
    this.follow();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.active.changed.disconnect(this.follow, this);
    this.place.dispose();
    super.dispose();
  }

  private follow(): void {
    const { situation, source } = this.active;
    // A session that has ended is not shown: nothing of it is alive.
    this.place.follow(situation.session && source);
    setText(this.message, messageOf(situation));
    setShown(this.message, this.message.textContent !== '');
  }
}
