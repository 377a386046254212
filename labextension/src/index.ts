/** The JupyterLab extension: wiring only. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry, MainAreaWidget } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { act } from './controls/actions';
import { ActiveSession } from './controls/active_session';
import {
  CHOOSE_TARGET,
  COMMANDS,
  SHOW_PANEL,
  TABS,
  commandId,
  named,
  openLabel,
} from './controls/commands';
import { openAtStart } from './controls/open_at_start';
import { Preferences } from './controls/preferences';
import { refusal } from './controls/situation';
import { StatusItem } from './controls/status_item';
import { TargetItem } from './controls/target_item';
import { followClicks } from './go_to';
import { OutputView } from './output';
import { PANEL_ID, SessionPanel } from './panel';
import { RestoredOutputs } from './restored';
import { Sources } from './source';
import { MIME_TYPE } from './view/model/contract';

const ID = 'nbdist-labextension:plugin';
/** Rank of the renderer for our MIME type. JupyterLab prefers the lowest; ipywidgets has -10 for its own. */
const OUTPUT_RANK = -20;

/** How long to wait for a cell's toolbar, in milliseconds. */
const TOOLBAR_MS = 5000;

/** Return the label of a command, which is short in nbdist's own menu. */
const labelled = (label: string) => (args: { readonly short?: unknown }) =>
  args.short === true ? label : named(label);

function addCommands(
  { commands, shell }: JupyterFrontEnd,
  active: ActiveSession,
  palette: ICommandPalette | null,
  tracker: INotebookTracker,
): void {
  for (const command of COMMANDS) {
    const { action, label, caption } = command;
    commands.addCommand(commandId(action), {
      label: labelled(label),
      caption: () => refusal(action, active.situation) ?? caption,
      isEnabled: () => refusal(action, active.situation) === null,
      execute: () => act(command, active),
    });
  }
  commands.addCommand(SHOW_PANEL.id, {
    label: labelled(SHOW_PANEL.label),
    execute: () => {
      shell.activateById(PANEL_ID);
    },
  });
  commands.addCommand(CHOOSE_TARGET.id, {
    label: labelled(CHOOSE_TARGET.label),
    execute: () => chooseTarget(tracker),
  });
  for (const { id, form, title } of TABS) {
    commands.addCommand(id, {
      label: labelled(openLabel(title)),
      execute: () => {
        const content = new SessionPanel(active, commands, form);
        content.title.label = title;
        shell.add(new MainAreaWidget({ content }), 'main', { mode: 'split-right' });
      },
    });
  }
  active.changed.connect(() => {
    for (const { action } of COMMANDS) commands.notifyCommandChanged(commandId(action));
  });
  const others = [CHOOSE_TARGET, SHOW_PANEL, ...TABS].map(({ id }) => id);
  const all = [...COMMANDS.map(({ action }) => commandId(action)), ...others];
  for (const command of all) palette?.addItem({ command, category: 'nbdist' });
}

/** Give the focus to the menu of the active cell; JupyterLab shows the toolbar of a new cell a moment later. */
async function chooseTarget(tracker: INotebookTracker): Promise<void> {
  const cell = tracker.activeCell;
  const end = performance.now() + TOOLBAR_MS;
  while (cell && cell === tracker.activeCell && performance.now() < end) {
    const menu = cell.node.querySelector<HTMLElement>('.nbdist-lab-target');
    // JupyterLab's toolbar gives a focus that enters it to its first button.
    menu?.focus();
    menu?.focus();
    if (menu && document.activeElement === menu) return;
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

function addOutputs(
  { shell }: JupyterFrontEnd,
  tracker: INotebookTracker,
  rendermime: IRenderMimeRegistry,
  sources: Sources,
): void {
  tracker.widgetAdded.connect((_, notebook) => {
    void notebook.sessionContext.ready.then(() => new RestoredOutputs(notebook, sources));
  });
  const factory = {
    // Data is shown as text: nothing saved in the notebook is run, or inserted as HTML.
    safe: true,
    mimeTypes: [MIME_TYPE],
    createRenderer: (options: ConstructorParameters<typeof OutputView>[0]) =>
      new OutputView(options, shell, sources),
  };
  rendermime.addFactory(factory, OUTPUT_RANK);
}

function addStatus(app: JupyterFrontEnd, active: ActiveSession, bar: IStatusBar): void {
  const item = new StatusItem(active, () => void app.commands.execute(SHOW_PANEL.id));
  bar.registerStatusItem('nbdist:status', {
    item,
    align: 'left',
    rank: 100,
    isActive: () => item.isActive,
    activeStateChanged: item.activeChanged,
  });
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the session of the active notebook, and controls it.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [
    ICommandPalette,
    ILayoutRestorer,
    ISettingRegistry,
    IStatusBar,
    IToolbarWidgetRegistry,
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null,
  ) => {
    const sources = new Sources();
    const active = new ActiveSession(tracker, sources);
    const preferences = new Preferences();
    const panel = new SessionPanel(active, app.commands);
    panel.id = PANEL_ID;
    app.shell.add(panel, 'right', { rank: 900 });
    restorer?.add(panel, panel.id);
    addCommands(app, active, palette, tracker);
    addOutputs(app, tracker, rendermime, sources);
    followClicks(tracker);
    if (statusBar) addStatus(app, active, statusBar);
    toolbars?.addFactory<Cell>(
      'Cell',
      'nbdist-target',
      cell => new TargetItem(cell, tracker, active, preferences),
    );
    void settings?.load(ID).then(loaded => {
      preferences.follow(loaded);
    });
    openAtStart(active, () => {
      if (preferences.openPanel) app.shell.activateById(panel.id);
    });
  },
};

export default plugin;
