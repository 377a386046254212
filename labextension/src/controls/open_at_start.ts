/** When a session begins while somebody looks at its notebook. */

import { NotebookActions } from '@jupyterlab/notebook';

import type { ActiveSession } from './active_session';

/**
 * Call `begun` once for each session that begins in the active notebook.
 *
 * A session that a reloaded page finds has begun earlier: no cell of its notebook was run in this page.
 */
export function openAtStart(active: ActiveSession, begun: () => void): void {
  const ran = new WeakSet();
  const seen = new Set<string>();
  NotebookActions.executionScheduled.connect((_, { notebook }) => {
    ran.add(notebook);
  });
  active.changed.connect((_, { session }) => {
    if (!session || seen.has(session.id)) return;
    seen.add(session.id);
    if (active.notebook && ran.has(active.notebook.content)) begun();
  });
}
