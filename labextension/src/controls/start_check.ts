/** The check of a start's form by the kernel: the parser and the planner that read the line itself. */

import type { Kernel } from '@jupyterlab/services';

import type { Field, Piece } from './start_line';

export interface Checked {
  /** The first error and its field; the field is null if the whole form is wrong. */
  readonly error: { readonly field: Field | null; readonly text: string } | null;
  /** Whether the kernel knows the magics. */
  readonly loaded: boolean;
  /** The values of the options that have a few, by the option's name. */
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

const failed = (text: string): Checked => ({
  error: { field: null, text },
  loaded: false,
  choices: {},
});

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

/** Return an expression of Python that checks the pieces. JSON of a text is a literal of Python, too. */
const expressionOf = (pieces: readonly Piece[]): string =>
  "__import__('nbdist.magics.start_form', fromlist=['check'])" +
  `.check(${JSON.stringify(JSON.stringify(pieces))})`;

/** Return what `nbdist/magics/start_form.py` answers. */
export function readAnswer(answer: unknown): Checked {
  if (!isObject(answer)) return failed('This kernel runs no Python.');
  if (answer.status === 'error') {
    return answer.ename === 'ModuleNotFoundError'
      ? failed('This kernel has no nbdist of this version. Install it there: pip install nbdist')
      : failed(`${String(answer.ename)}: ${String(answer.evalue)}`);
  }
  const found = isObject(answer.data) ? answer.data['application/json'] : null;
  if (!isObject(found)) return failed('This kernel does not answer.');
  return found as unknown as Checked;
}

/** Ask an idle kernel. Nothing of it shows in the notebook, and it counts as no cell. */
export async function checkStart(
  kernel: Kernel.IKernelConnection,
  pieces: readonly Piece[],
): Promise<Checked> {
  try {
    const future = kernel.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { check: expressionOf(pieces) },
    });
    const { content } = await future.done;
    return readAnswer(content.status === 'ok' ? content.user_expressions.check : null);
  } catch (error) {
    // The kernel has gone meanwhile.
    if (error instanceof Error) return failed('The kernel has gone.');
    throw error;
  }
}
