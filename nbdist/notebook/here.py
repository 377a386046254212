"""`%%dist --here`: a cell that has run on the processes, in the notebook as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdist.engine.cell.showable import error_text
from nbdist.errors import NbdistError, NotebookError, OptionError
from nbdist.notebook.mode import LOCAL
from nbdist.spelling import Door, through

LABEL = "in the notebook"
"""What its own lines stand under, as those of processes under `processes 0–3`."""


def refuse_here(shell: Any, code: str, *, wait: bool) -> None:
    """Refuses, before anything is sent, what cannot run in the notebook afterwards.

    Raises:
      OptionError: The cell would not be waited for, or awaits.
    """
    if not wait:
        raise OptionError(
            "--here runs the cell in the notebook once the processes have run it, and --no-wait does not wait for "
            "that. Leave one of them out; nothing was run."
        )
    if shell.should_run_async(code, transformed_cell=code):
        raise OptionError(
            "--here cannot run a cell with await outside of a function in the notebook. Run it there in a plain "
            "cell; nothing was run."
        )


def run_here(shell: Any, code: str, *, processes: Callable[[], object]) -> None:
    """Runs a cell on the processes, then in the notebook's namespace.

    Args:
      shell: The notebook's IPython shell.
      code: What stands below the first line of the cell.
      processes: Runs it on the processes.

    Raises:
      NotebookError: It failed in the notebook; IPython has shown the traceback.
      NbdistError: It failed on the processes; it was not run in the notebook.
    """
    try:
        processes()
    except NbdistError:
        print(f"{LABEL}   not run, since the cell has failed on the processes")
        raise
    print(LABEL, flush=True)
    # The line in place of the magic's keeps the numbers, and has a plain cell run here whatever the mode is.
    with through(Door.PYTHON):
        result = shell.run_cell(f"{LOCAL}\n{code}", store_history=False)
    error = result.error_in_exec if result.error_before_exec is None else result.error_before_exec
    if error is not None:
        raise NotebookError(
            f"the cell has run on the processes, and failed in the notebook: {error_text(error)}"
        ) from None
