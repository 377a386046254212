/** The bar at the top of the panel: the session's state, and a button for each action on it. */

import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import { setAttributes, setText } from '../view/sections/parts/parts';
import type { ActiveSession } from './active_session';
import { COMMANDS, commandId, type SessionCommand } from './commands';
import { element } from './element';
import { needsRecovery, refusal, stateText, type Situation } from './situation';

/** Return the action to offer first. */
function firstChoice(situation: Situation): string | null {
  if (refusal('start', situation) === null) return 'start';
  return needsRecovery(situation) ? 'recover' : null;
}

export class SessionBar extends Widget {
  private readonly state = element('span', 'state', { role: 'status' });
  private readonly buttons: ReadonlyMap<SessionCommand, HTMLButtonElement>;

  constructor(
    private readonly active: ActiveSession,
    private readonly commands: CommandRegistry,
  ) {
    super();
    this.addClass('nbdist-lab-bar');
    this.buttons = new Map(COMMANDS.map(command => [command, this.buttonOf(command)]));
    const group = { role: 'group', 'aria-label': 'Session' };
    this.node.append(this.state, element('div', 'buttons', group, ...this.buttons.values()));
    active.changed.connect(this.write, this);
    this.write();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.active.changed.disconnect(this.write, this);
    super.dispose();
  }

  private buttonOf(command: SessionCommand): HTMLButtonElement {
    const button = element('button', 'button', { type: 'button' }, command.label);
    button.addEventListener('click', () => {
      // Asked again, since the page may be a moment behind.
      if (refusal(command.action, this.active.situation) === null)
        void this.commands.execute(commandId(command.action));
    });
    return button;
  }

  private write(): void {
    const { situation } = this.active;
    const first = firstChoice(situation);
    setText(this.state, stateText(situation));
    this.state.classList.toggle('nbdist-lab-needs', needsRecovery(situation));
    for (const [{ action, caption }, button] of this.buttons) {
      const refused = refusal(action, situation);
      // Not `disabled`: with the keyboard one could not come to the reason.
      setAttributes(button, {
        'aria-disabled': refused === null ? null : 'true',
        title: refused ?? caption,
      });
      button.classList.toggle('nbdist-lab-first', action === first);
    }
  }
}
