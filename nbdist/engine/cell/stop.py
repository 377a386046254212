"""Agreement on the step before which all processes leave a stopped cell, so that all have done equally many.

A step begins where a person calls `nbdist.checkpoint()`, and where Keras begins a batch. Where one process has
done a step more than another, the other processes' parts of that step never come, and the data that the step has
taken is lost. An interrupt finds each process in another place.

So each interrupted process writes to the store of JAX's coordinator before which step it stands, and waits a
moment. Where all stand before the same step, they leave. A process before an earlier step goes on to the next. So
does one for which the others do not come, since they may be in a step that needs it. The first process to write
decides once for all what happens before a step: the store does not overwrite.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.engine.cell.interrupts import Interrupt
from nbdist.engine.cell.running import CurrentCell

FOLDER = "nbdist/stops"
LEAVE, GO_ON = "leave", "go on"

PATIENCE_SECONDS, MOST_PATIENCE_SECONDS = 0.05, 5.0
"""Wait for other processes at first and at most; twice as long each time, so that a slower one catches up."""

LOOK_SECONDS = 0.002
"""Time between two reads of the store."""


class StoppedBeforeStep(Interrupt):
    """An interrupt that all processes raise before the same step; the kernel knows it by its name."""


class AgreedStop:
    """One process's part in an agreed stop; all but `ask` is for the main thread.

    Args:
      client: Returns JAX's connection to its coordinator; see `nbdist.engine.frameworks.jax.step.origins`.
      cell: The cell that runs.
      process_id: Returns the number of this process.

    Attributes:
      begun: How many steps of the cell have begun here, or are about to.
    """

    def __init__(
        self, client: Callable[[], Any | None], cell: CurrentCell, process_id: Callable[[], int]
    ) -> None:
        self.begun = 0
        self._group: Sequence[int] = ()
        self._asked: int | None = None
        self._client = client
        self._cell = cell
        self._me = process_id
        self._run: int | None = None
        self._patience = PATIENCE_SECONDS

    def ask(self, run: int) -> int | None:
        """Ask for a stop of the cell with this run number, from any thread.

        Returns:
          How many steps have begun here; None where that cell does not run.
        """
        running = self._cell.running
        if running is None or running.run != run:
            return None
        self._asked = run
        return self.begun if self._run == run else 0

    def step(self, group: Sequence[int]) -> None:
        """Count a step that is about to begin; `group` are the processes that take part in it.

        Raises:
          StoppedBeforeStep: A stop was asked for, and all processes leave before this step.
        """
        running = self._cell.running
        run = None if running is None else running.run
        if run != self._run:
            self._run, self.begun, self._patience = run, 0, PATIENCE_SECONDS
        self.begun += 1
        self._group = group
        if run is not None and self._asked == run and self.leave():
            raise StoppedBeforeStep(f"stopped before step {self.begun}")

    def leave(self) -> bool:
        """Return whether to leave before the step that was counted last; called where an interrupt waits.

        The answer is yes where nothing can be agreed on: no other process takes part, the cell is not one of the
        notebook, or the coordinator does not answer.
        """
        client = self._client()
        if client is None or self._run is None or len(self._group) < 2:
            return True
        until = time.monotonic() + self._patience
        self._patience = min(2 * self._patience, MOST_PATIENCE_SECONDS)
        folder = f"{FOLDER}/{self._run}"
        try:
            client.key_value_set(f"{folder}/at/{self._me()}", str(self.begun), allow_overwrite=True)
            while True:
                at, decided = _read(client, folder)
                if self.begun in decided:
                    return decided[self.begun] == LEAVE
                if any(step > self.begun for step in at.values()):
                    return False
                if all(at.get(process) == self.begun for process in self._group):
                    return self._decide(client, folder, LEAVE)
                if time.monotonic() > until:
                    return self._decide(client, folder, GO_ON)
                time.sleep(LOOK_SECONDS)
        except RuntimeError:
            return True

    def _decide(self, client: Any, folder: str, wanted: str) -> bool:
        """Write what happens before this step, unless another process has; return whether all leave."""
        try:
            client.key_value_set(f"{folder}/do/{self.begun}", wanted, allow_overwrite=False)
        except RuntimeError:
            _, decided = _read(client, folder)
            return decided[self.begun] == LEAVE
        return wanted == LEAVE


def _read(client: Any, folder: str) -> tuple[dict[int, int], dict[int, str]]:
    """Return before which step each process stands, and the decision for each step."""
    at, decided = {}, {}
    for key, text in client.key_value_dir_get(folder):
        _, kind, number = key.rsplit("/", 2)
        if kind == "at":
            at[int(number)] = int(text)
        else:
            decided[int(number)] = text
    return at, decided
