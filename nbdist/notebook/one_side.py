"""Names that exist on one side only, in the notebook or on the processes: what to type where one is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from nbdist.contract.calls.engine import Complete
from nbdist.errors import ProcessError
from nbdist.notebook.completion import Asks
from nbdist.spelling import Door, command, through

NAME_SECONDS = 2.0
"""How long an idle process may take to say whether it has a name."""

_UNKNOWN = re.compile(r"^NameError: name '(\w+)' is not defined")


def say_here(error: ProcessError, namespace: Mapping[str, Any]) -> None:
    """Adds what to type to the error of a cell that has used a name of the notebook.

    Args:
      error: Of a cell on the processes.
      namespace: Of the notebook.
    """
    for outcome in error.failures:
        found = _UNKNOWN.match(str(getattr(outcome, "error", None) or ""))
        if found is None or found[1] not in namespace:
            continue
        name = found[1]
        remedy = (
            f"Import it in a {command('cell')}, too."
            if isinstance(namespace[name], ModuleType)
            else f"{command('push')} {name} sends it."
        )
        error.shown += f"\n{name} exists in the notebook, not on the processes. {remedy}"
        return


class OneSide:
    """Says below a plain cell that a name it lacks is there on the processes.

    Args:
      shell: The notebook's IPython shell.
      session: Answers the active session, or None.
    """

    def __init__(self, shell: Any, session: Callable[[], Asks | None]) -> None:
        self._shell = shell
        self._session = session

    def install(self) -> None:
        """Looks at each cell that ends from now on."""
        self._shell.events.register("post_run_cell", self.look)

    def remove(self) -> None:
        """Looks no longer."""
        self._shell.events.unregister("post_run_cell", self.look)

    def look(self, result: Any) -> None:
        """Called by IPython at the end of a cell; asks a process only where a name was missing."""
        error = result.error_in_exec
        session = self._session()
        if session is None or not isinstance(error, NameError) or not error.name:
            return
        name = error.name
        asked = Complete(code=name, cursor=len(name))
        answer = session.ask_idle(asked, timeout_s=NAME_SECONDS)
        if answer is not None and name in answer.matches:
            with through(Door.MAGIC):
                remedy = f"{command('pull')} {name} brings it."
            print(f"{name} exists on the processes, not in the notebook. {remedy}")
