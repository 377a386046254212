"""The activity of this process: the section of a report that goes out most often."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal

from nbdist.contract import snapshot
from nbdist.engine.cell.code_owners import CodeOwners
from nbdist.engine.cell.main_thread import MainThread
from nbdist.engine.cell.running import CurrentCell, RunningCell
from nbdist.engine.cell.stack import Place, place
from nbdist.engine.probe.memory import rss_bytes

IDLE_SHARE = 0.05
"""A main thread that used less of the processor than this since the last look counts as blocked."""


class Activity:
    """Repeated looks at the main thread; used from one thread.

    Args:
      cell: The cell that runs.
      main_thread: The thread where it runs.
      owners: Tells to whom code belongs.
    """

    def __init__(self, cell: CurrentCell, main_thread: MainThread, owners: CodeOwners) -> None:
        self._cell = cell
        self._main_thread = main_thread
        self._owners = owners
        self._at: tuple[object, ...] = ()
        self._since = 0.0

    def look(self, context_mesh: str | None) -> snapshot.Activity:
        """Return the section as of now."""
        # In this order: a cell that begins in between is then reported as running, or as not begun.
        newest = self._cell.newest_run
        running = self._cell.running
        busy_share = self._main_thread.busy_share()
        if running is None:
            return self._section("idle", context_mesh, run=newest)
        stands = place(self._main_thread.stack(), running, self._owners)
        now = time.monotonic()
        at = (running.number, running.started, stands.line)
        if at != self._at:
            self._at, self._since = at, now
        return self._section(
            "compiling" if stands.compiling else "running",
            context_mesh,
            run=running.run,
            cell=running.number,
            line=stands.line,
            source=stands.source,
            cell_seconds=now - running.started,
            line_seconds=self._line_seconds(stands, running, now),
            waiting=self._waits(stands, busy_share),
        )

    def _line_seconds(self, stands: Place, running: RunningCell, now: float) -> float | None:
        if stands.line is None:
            return None
        return now - max(self._since, running.started)

    def _waits(self, stands: Place, busy_share: float | None) -> bool:
        """Return whether the main thread is inside the framework and neither compiles nor computes.

        C++ may be called straight from the user's line (a jitted function, `block_until_ready`), so that no
        Python frame of the framework is there to see; the main thread then waits for another thread. An agreement
        with other processes is always a wait, though checking whether they have come takes some processor time.
        """
        if stands.inside == "agreement":
            return True
        if stands.compiling or busy_share is None or busy_share > IDLE_SHARE:
            return False
        if stands.inside == "framework":
            return True
        if stands.inside == "library":
            return False
        for_a_thread = self._main_thread.waits_for_a_thread()
        if for_a_thread is None:
            return "block_until_ready" in (stands.source or "")
        return for_a_thread

    def _section(
        self,
        state: Literal["idle", "running", "compiling"],
        context_mesh: str | None,
        **running: Any,
    ) -> snapshot.Activity:
        idle = snapshot.Activity(
            state=state,
            cell=None,
            line=None,
            source=None,
            cell_seconds=None,
            line_seconds=None,
            waiting=False,
            rss_bytes=rss_bytes(),
            context_mesh=context_mesh,
        )
        return replace(idle, **running)
