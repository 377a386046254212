/** The session's state in JupyterLab's status bar; a click opens the panel. */

import { Signal, type ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { setText } from '../view/sections/parts/parts';
import type { ActiveSession } from './active_session';
import { element } from './element';
import { needsRecovery, stateText } from './situation';

export class StatusItem extends Widget {
  private readonly button: HTMLButtonElement;
  private readonly activeSignal = new Signal<this, undefined>(this);
  /** Signal that `isActive` may have changed. */
  readonly activeChanged: ISignal<this, undefined> = this.activeSignal;

  constructor(
    private readonly active: ActiveSession,
    opened: () => void,
  ) {
    super();
    this.button = element('button', 'status', { type: 'button', title: 'Show the session' });
    this.button.addEventListener('click', opened);
    this.node.append(this.button);
    active.changed.connect(this.write, this);
    this.write();
  }

  /** Whether there is a session to speak of. */
  get isActive(): boolean {
    return this.active.situation.session !== null;
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.active.changed.disconnect(this.write, this);
    super.dispose();
  }

  private write(): void {
    const { situation } = this.active;
    setText(this.button, stateText(situation));
    this.button.classList.toggle('nbdist-lab-needs', needsRecovery(situation));
    this.activeSignal.emit(undefined);
  }
}
