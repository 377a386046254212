/**
 * The actions on a session, as data.
 *
 * The bar, the commands and the palette are made from this table. The main menu and the shortcuts
 * are in `schema/plugin.json`, where JupyterLab lets people change them; a test compares the two.
 */

import type { Action } from './situation';

/** What to ask before an action that cannot be undone. */
export interface Question {
  readonly title: string;
  readonly text: string;
}

export interface SessionCommand {
  readonly action: Action;
  readonly label: string;
  /** What it does, for its tooltip. */
  readonly caption: string;
  /** The second stroke of its shortcut, after `PREFIX`. */
  readonly key: string;
  /** The cell that it runs; null if it is no fixed one. */
  readonly cell: string | null;
  readonly question?: Question;
}

/** The first stroke of all shortcuts. */
export const PREFIX = 'Accel Shift Y';

const LOST = 'All processes end, and their variables are lost.';

export const COMMANDS: readonly SessionCommand[] = [
  {
    action: 'start',
    label: 'Start…',
    caption: 'Start processes for this notebook',
    key: 'S',
    cell: null,
  },
  {
    action: 'interrupt',
    label: 'Interrupt',
    caption: 'Interrupt the running cell on all processes',
    key: 'I',
    cell: null,
  },
  {
    action: 'recover',
    label: 'Recover',
    caption: 'Bring the processes in step again; they keep their variables',
    key: 'R',
    cell: '%dist_recover',
  },
  {
    action: 'restart',
    label: 'Restart',
    caption: 'End the processes and start them afresh',
    key: 'T',
    cell: '%dist_init --restart',
    question: { title: 'Restart the session?', text: `${LOST} Then as many start afresh.` },
  },
  {
    action: 'shutdown',
    label: 'Shut down',
    caption: 'End the processes of this notebook',
    key: 'Q',
    cell: '%dist_shutdown',
    question: { title: 'Shut down the session?', text: LOST },
  },
];

export const commandId = (action: Action): string => `nbdist:${action}`;

/** Commands beside those on a session. */
export const SHOW_PANEL = { id: 'nbdist:show-devices', label: 'Show Session Panel', key: 'P' };
export const CHOOSE_TARGET = {
  id: 'nbdist:choose-target',
  label: 'Choose Where the Cell Runs',
  key: 'W',
};

/** What a tab can show: the session, or one section of it. */
export const TABS = [
  { id: 'nbdist:open-tab', form: 'view', title: 'Session' },
  { id: 'nbdist:open-problem', form: 'problem', title: 'Problem' },
  { id: 'nbdist:open-processes', form: 'processes', title: 'Processes' },
  { id: 'nbdist:open-mesh', form: 'mesh', title: 'Mesh' },
  { id: 'nbdist:open-arrays', form: 'arrays', title: 'Arrays' },
] as const;

/** Return the label of the command that opens a tab. */
export const openLabel = (title: string): string => `Open ${title} in a Tab`;

/** Return the name of a command outside of nbdist's own menu. */
export const named = (label: string): string => `nbdist: ${label}`;
