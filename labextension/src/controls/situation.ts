/** What is known of the active notebook's session, in a few words, and which actions make sense with it. */

import { countText } from '../view/model/format';
import type { Snapshot } from '../view/model/snapshot';

/** The name of an action on a session. */
export type Action = 'start' | 'interrupt' | 'recover' | 'restart' | 'shutdown';

/** `busy`: a cell runs. `dead` kernels do not come back by themselves, those that begin do. */
export type KernelState = 'none' | 'dead' | 'begins' | 'idle' | 'busy';

export interface SessionNow {
  readonly id: string;
  readonly state: Snapshot['state'];
  readonly processes: number;
  /** The newest cell in which a process is; null if all are idle. */
  readonly cell: number | null;
}

export interface Situation {
  readonly notebook: boolean;
  readonly kernel: KernelState;
  /** Null before a start, and after a shutdown. */
  readonly session: SessionNow | null;
  /** The action that a person has begun in this notebook, from the first click to the end of its cell. */
  readonly underWay: Action | null;
  /** Whether plain cells run on the processes (`%dist_mode`). */
  readonly onProcesses: boolean;
}

export const NOTHING: Situation = {
  notebook: false,
  kernel: 'none',
  session: null,
  underWay: null,
  onProcesses: false,
};

/** Return what the controls use of a snapshot; null if no process of its session is left. */
export function sessionOf(snapshot: Partial<Snapshot> | null): SessionNow | null {
  const { session: id, state, processes } = snapshot ?? {};
  if (id === undefined || state === undefined || !processes || state === 'stopped') return null;
  const cells = processes.flatMap(({ state, cell }) =>
    cell !== null && state !== 'idle' && state !== 'lost' ? [cell] : [],
  );
  const cell = cells.length ? Math.max(...cells) : null;
  return { id, state, processes: processes.length, cell };
}

/** What a cell of an action does while there are no processes yet, or no longer. */
const WITHOUT_PROCESSES: Readonly<Partial<Record<Action, string>>> = {
  start: 'starting',
  restart: 'restarting',
  shutdown: 'shutting down',
};

/** Return `no session`, `starting`, `4 processes · idle` or `4 processes · running cell 5`. */
export function stateText({ session, kernel, underWay }: Situation): string {
  if (!session) {
    const doing = kernel === 'busy' && underWay ? WITHOUT_PROCESSES[underWay] : undefined;
    return doing ?? 'no session';
  }
  const { state, cell, processes } = session;
  const what = state === 'running' && cell !== null ? `running cell ${cell}` : state;
  return `${countText(processes, 'process', 'processes')} · ${what}`;
}

/** Return whether a person should recover now. While a cell runs, the session recovers by itself, or not yet. */
export const needsRecovery = ({ session, kernel }: Situation): boolean =>
  kernel !== 'busy' && (session?.state === 'stuck' || session?.state === 'out of step');

const STILL: Readonly<Record<Action, string>> = {
  start: 'A start is under way.',
  interrupt: 'An interrupt is under way.',
  recover: 'A recovery is under way.',
  restart: 'A restart is under way.',
  shutdown: 'A shutdown is under way.',
};

/**
 * Return why an action makes no sense now; null if it does.
 *
 * While a cell runs, only Interrupt does: each of the others is a cell, which would wait for the
 * running one. Recover is never refused to a session that answers, since a person may doubt what
 * the session says of itself, and it changes nothing where nothing is wrong.
 */
export function refusal(action: Action, situation: Situation): string | null {
  const { notebook, kernel, session, underWay } = situation;
  if (!notebook) return 'No notebook is open.';
  if (kernel === 'none') return 'This notebook has no kernel. Choose one in the menu Kernel.';
  if (kernel === 'dead') return 'The kernel has died. Restart it in the menu Kernel.';
  if (kernel === 'begins') return 'The kernel is starting.';
  if (action === 'interrupt') {
    return kernel === 'busy' || session?.state === 'running' ? null : 'Nothing is running.';
  }
  if (underWay) return STILL[underWay];
  if (kernel === 'busy') return 'A cell is running. Interrupt it first.';
  if (action === 'start') return session ? 'A session is running. Shut it down first.' : null;
  return session ? null : 'There is no session. Start one first.';
}
