"""Agreement of the processes on a call before any of them begins it.

Each process writes the call that it is about to make on a board that all share (`SharedBoard`), and at the end of
each cell that the cell has ended. A process goes on when all others have written the same call, and raises when
another has ended the cell without the call. There is no time limit: a process that is still busy may yet come, and
the kernel's report names the line at which a process waits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.engine.cell.running import CurrentCell, RunningCell
from nbdist.engine.frameworks.keras.guards.call import GuardedCall, disagreement
from nbdist.errors import AgreementError, NbdistError
from nbdist.notation import on_host_text, processes_text
from nbdist.spelling import command

FOLDER = "nbdist/calls"
"""The folder of the board in the coordinator's store."""


class SharedBoard:
    """A board that all processes share: one short text for each process, kept by JAX's coordinator.

    `put` and `read` send one request each to the coordinator (0.4 ms locally). No device takes part, so neither
    method waits for a process that is busy.

    Args:
      client: A function such as `nbdist.engine.frameworks.jax.private.coordinator_client`, called each time
        since a repair joins another coordinator.
      process_id: The number of this process, whose text `put` replaces.
    """

    def __init__(self, client: Callable[[], Any | None], process_id: int) -> None:
        self._client = client
        self._key = f"{FOLDER}/{process_id}"

    def put(self, text: str) -> None:
        """Replace this process's text.

        Raises:
          RuntimeError: The coordinator cannot be reached.
        """
        self._connected().key_value_set(self._key, text, allow_overwrite=True)

    def read(self) -> dict[int, str]:
        """Return the texts of all processes that have put one, by process id.

        Raises:
          RuntimeError: The coordinator cannot be reached.
        """
        entries = self._connected().key_value_dir_get(FOLDER)
        return {int(key.rpartition("/")[2]): text for key, text in entries}

    def _connected(self) -> Any:
        client = self._client()
        if client is None:
            raise RuntimeError("JAX is not connected to a coordinator")
        return client


SHORTEST_SECONDS = 0.0005
LONGEST_SECONDS = 0.05
"""The shortest and longest time between two looks at the board."""

KEPT = 32
"""The number of earlier calls that a process keeps on the board. Other processes are at most one agreed call
behind; calls that were refused at once come on top, since no process waits for them."""

State = dict[str, Any]
"""The text of one process on the board, read from JSON."""


class CallAgreement:
    """One process's part in the agreement; used on the main thread.

    Args:
      board: The board of all processes.
      cell: The cell that runs.
      process_id: The number of this process.
      host: The name of its host.

    Attributes:
      agreed: The calls of the group that were compared last, by process id.
    """

    def __init__(self, board: SharedBoard, cell: CurrentCell, process_id: int, host: str) -> None:
        self._board = board
        self._cell = cell
        self._me = process_id
        self._host = host
        self._seen = cell.running
        self._counts: dict[tuple[int, ...], int] = {}
        self._alone: str | None = None
        self._calls: list[State] = []
        self.agreed: dict[int, GuardedCall] = {}

    def edge(self) -> None:
        """Note a cell's start, or put its end on the board; called at each start and each end of a cell."""
        running = self._cell.running
        if running is not self._seen:
            self._seen = running
            self._counts.clear()
            self._alone = None
        elif running is not None and running.run is not None:
            try:
                self._put(running, ended=_first_line(self._cell.error))
            except RuntimeError:
                # Process 0 is gone, which ends the session's cells anyway.
                return

    def trains_alone(self, method: str) -> None:
        """Note a call that this process makes alone; processes that wait for a common call then name it."""
        self._alone = method

    def meet(self, call: GuardedCall, group: Sequence[int]) -> NbdistError | None:
        """Wait until all processes of `group` are about to make the same call.

        Args:
          call: This process's call; one with a refusal is put on the board, and this process does not wait.
          group: The processes whose devices the distribution spans, in order; this one among them.

        Returns:
          The error to raise in place of the call, or None.
        """
        self.agreed = {}
        running = self._cell.running
        if running is None or running.run is None:
            return None
        away = [process for process in group if process not in running.targets]
        if away:
            return AgreementError(
                f"{call.method} needs {processes_text(group)}, over whose devices the distribution is set, and "
                f"this cell runs on {processes_text(running.targets)} only. Run it in a {command('cell')} on "
                "all of them, or call keras.distribution.set_distribution(None) and build a model of this process "
                "alone."
            )
        key = tuple(group)
        number = self._counts[key] = self._counts.get(key, 0) + 1
        entry = {"run": running.run, "group": list(key), "number": number, "call": call.plain()}
        self._calls = [*self._calls[-KEPT:], entry]
        try:
            self._put(running)
            if call.refusal is not None:
                return None
            return self._wait(running.run, key, number, call)
        except RuntimeError as error:
            return AgreementError(
                f"{call.method} could not be agreed on: JAX's coordinator does not answer ({error})."
            )
        except KeyboardInterrupt:
            # Another process may not have read this call yet, and must not begin without this process.
            entry["call"] = {**call.plain(), "refusal": "it was interrupted"}
            self._put(running)
            raise

    def _put(self, running: RunningCell, ended: str | None = None) -> None:
        state = {
            "run": running.run,
            "host": self._host,
            "ended": ended,
            "alone": self._alone,
            "calls": self._calls,
        }
        self._board.put(json.dumps(state))

    def _wait(
        self, run: int, group: tuple[int, ...], number: int, mine: GuardedCall
    ) -> NbdistError | None:
        pause = SHORTEST_SECONDS
        while True:
            states = {p: json.loads(text) for p, text in self._board.read().items()}
            calls = {self._me: mine}
            for process in group:
                state = states.get(process)
                if process == self._me or state is None:
                    continue
                found = _find(state, run, group, number)
                if found is not None:
                    calls[process] = found
                elif gone := self._left(process, state, run, group, mine):
                    return gone
            if len(calls) == len(group):
                # All processes have written this call, so no process reads earlier ones any more.
                self._calls = self._calls[-1:]
                self.agreed = {p: calls[p] for p in group}
                return disagreement(self.agreed, self._me)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)

    def _left(
        self, process: int, state: State, run: int, group: tuple[int, ...], mine: GuardedCall
    ) -> NbdistError | None:
        """Return the error if a process can no longer make the call; None while all others still may."""
        at = on_host_text([process], state["host"])
        if state["run"] > run or (state["run"] == run and state["ended"] is not None):
            ended = state["ended"] if state["run"] == run else ""
            how = f"raised {ended}" if ended else "finished this cell"
            alone = state["alone"] if state["run"] == run else None
            other = f" (its {alone} ran with no distribution set)" if alone else ""
            return AgreementError(
                f"{at} {how} without calling {mine.method} as this process does{other}. Every process of "
                f"the distribution must call {mine.method}; do not put it under a condition that only some "
                "meet. Nothing was started."
            )
        last = next((c for c in reversed(state["calls"]) if c["run"] == run), None)
        if last is not None and self._misses(last, group):
            return AgreementError(
                f"{at} calls {last['call']['method']} with a distribution over "
                f"{processes_text(last['group'])}, here {mine.method} has one over {processes_text(group)}. "
                "Set the same distribution on every process. Nothing was started."
            )
        return None

    def _misses(self, entry: State, group: tuple[int, ...]) -> bool:
        """Return whether another process's call waits for this process, while this one waits for another group."""
        other = tuple(entry["group"])
        return other != group and self._me in other and self._counts.get(other, 0) < entry["number"]


def _find(state: State, run: int, group: tuple[int, ...], number: int) -> GuardedCall | None:
    wanted = {"run": run, "group": list(group), "number": number}
    for entry in state["calls"]:
        if all(entry[key] == value for key, value in wanted.items()):
            return GuardedCall.read(entry["call"])
    return None


def _first_line(error: str | None) -> str:
    return (error or "").partition("\n")[0][:200]
