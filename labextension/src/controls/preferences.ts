/** The person's settings, as JupyterLab keeps them by `schema/plugin.json`. */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal, type ISignal } from '@lumino/signaling';

export class Preferences {
  /** Whether the panel opens when a session starts. */
  openPanel = true;
  /** Whether the toolbar of a cell shows where it runs. */
  cellTarget = true;
  private readonly changedSignal = new Signal<this, undefined>(this);
  readonly changed: ISignal<this, undefined> = this.changedSignal;

  /** Take the settings now, and when they change. */
  follow(settings: ISettingRegistry.ISettings): void {
    const take = (): void => {
      this.openPanel = settings.composite.openPanel !== false;
      this.cellTarget = settings.composite.cellTarget !== false;
      this.changedSignal.emit(undefined);
    };
    settings.changed.connect(take);
    take();
  }
}
