"""Before which step all processes leave a call that was interrupted, so that all have done equally many.

Where one has done a step more than another, the others' parts of that step never come, and the model, whose values
the step has taken, is lost. The interrupt finds each process in another place. So each that has one says before
which step it stands, on the board of JAX's coordinator, and waits a moment. Where all stand before the same step
they leave. One that stands before an earlier step goes on to the next; and so does one for which the others do not
come, since they may be in a step that needs it. What happens before a step is decided once for all, by whoever
writes it first: the board does not overwrite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.engine.cell import CurrentCell

FOLDER = "nbdist/stops"
LEAVE, GO_ON = "leave", "go on"

PATIENCE_SECONDS = 0.05
"""How long is waited for others at first; twice as long each time after that, so that who is slower catches up."""

LOOK_SECONDS = 0.002
"""Between two looks at the board."""


class AgreedStop:
    """One process's part in it; used on the main thread.

    Args:
      client: Answers JAX's connection to its coordinator; see `nbdist.engine.keras.guards.board`.
      cell: The cell that runs.
      process_id: This process.
    """

    def __init__(
        self, client: Callable[[], Any | None], cell: CurrentCell, process_id: int
    ) -> None:
        self.group: Sequence[int] = ()
        self._client = client
        self._cell = cell
        self._me = process_id
        self._run: int | None = None
        self._begun = 0
        self._patience = PATIENCE_SECONDS

    def count(self) -> None:
        """A step is about to begin."""
        running = self._cell.running
        run = None if running is None else running.run
        if run != self._run:
            self._run, self._begun, self._patience = run, 0, PATIENCE_SECONDS
        self._begun += 1

    def leave(self) -> bool:
        """Whether to leave before the step that was counted last; called where an interrupt waits.

        Where nothing can be agreed on, the answer is yes: no other process takes part, the cell is not one of the
        notebook, or the coordinator does not answer.
        """
        client = self._client()
        if client is None or self._run is None or len(self.group) < 2:
            return True
        until = time.monotonic() + self._patience
        self._patience *= 2
        folder = f"{FOLDER}/{self._run}"
        try:
            client.key_value_set(f"{folder}/at/{self._me}", str(self._begun), allow_overwrite=True)
            while True:
                at, decided = _read(client, folder)
                if self._begun in decided:
                    return decided[self._begun] == LEAVE
                if any(step > self._begun for step in at.values()):
                    return False
                if all(at.get(process) == self._begun for process in self.group):
                    return self._decide(client, folder, LEAVE)
                if time.monotonic() > until:
                    return self._decide(client, folder, GO_ON)
                time.sleep(LOOK_SECONDS)
        except RuntimeError:
            return True

    def _decide(self, client: Any, folder: str, wanted: str) -> bool:
        """Writes what happens before this step, unless another process has; answers whether all leave."""
        try:
            client.key_value_set(f"{folder}/do/{self._begun}", wanted, allow_overwrite=False)
        except RuntimeError:
            _, decided = _read(client, folder)
            return decided[self._begun] == LEAVE
        return wanted == LEAVE


def _read(client: Any, folder: str) -> tuple[dict[int, int], dict[int, str]]:
    """Before which step each process stands, and what was decided for each step."""
    at, decided = {}, {}
    for key, text in client.key_value_dir_get(folder):
        _, kind, number = key.rsplit("/", 2)
        if kind == "at":
            at[int(number)] = int(text)
        else:
            decided[int(number)] = text
    return at, decided
