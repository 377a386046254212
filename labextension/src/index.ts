/** The JupyterLab extension: wiring only. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { followClicks } from './go_to';
import { OutputView } from './output';
import { DevicesPanel } from './panel';
import { RestoredOutputs } from './restored';
import { Sources } from './source';
import { MIME_TYPE } from './view/model/contract';

const SHOW = 'nbdist:show-devices';
/** Rank of the renderer for our MIME type. JupyterLab prefers the lowest; ipywidgets has -10 for its own. */
const OUTPUT_RANK = -20;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist-labextension:plugin',
  description: 'Shows the live device mesh of the active notebook.',
  autoStart: true,
  requires: [INotebookTracker, IRenderMimeRegistry],
  optional: [ICommandPalette, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
  ) => {
    const sources = new Sources();
    tracker.widgetAdded.connect((_, notebook) => {
      void notebook.sessionContext.ready.then(() => new RestoredOutputs(notebook, sources));
    });
    followClicks(tracker);
    const panel = new DevicesPanel(tracker, sources);
    app.shell.add(panel, 'right', { rank: 900 });
    restorer?.add(panel, panel.id);
    app.commands.addCommand(SHOW, {
      label: 'nbdist: Show Session Panel',
      execute: () => {
        app.shell.activateById(panel.id);
      },
    });
    palette?.addItem({ command: SHOW, category: 'nbdist' });
    const factory = {
      // Data is shown as text: nothing saved in the notebook is run, or inserted as HTML.
      safe: true,
      mimeTypes: [MIME_TYPE],
      createRenderer: (options: ConstructorParameters<typeof OutputView>[0]) =>
        new OutputView(options, app.shell, sources),
    };
    rendermime.addFactory(factory, OUTPUT_RANK);
  },
};

export default plugin;
