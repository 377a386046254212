"""Activity of this process: what it does now, its memory and its progress, and when a report of them is due.

`ActivityReader` looks at the main thread. `note` keeps the newest progress of training or evaluation. `Sections`
says which sections of a report are due. `Pace` spaces the looks so that they take no more than a given share of
the time.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from nbdist.contract import snapshot
from nbdist.contract.snapshot import Activity, Metric, Progress
from nbdist.engine.cell.running import CurrentCell, Position, RunningCell, place
from nbdist.engine.cell.stacks import CodeOwners, MainThread


def rss_bytes() -> int:
    """Return the resident memory of this process, in bytes; its peak if the system gives no more."""
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


IDLE_SHARE = 0.05
"""Share of the processor; a main thread that has used less since the last look counts as blocked."""


class ActivityReader:
    """Repeated looks at the main thread, for the section of a report that goes out most often.

    Used from one thread.

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
        # Read in this order: a cell that begins in between is reported either as running or as not begun.
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

    def _line_seconds(self, stands: Position, running: RunningCell, now: float) -> float | None:
        if stands.line is None:
            return None
        return now - max(self._since, running.started)

    def _waits(self, stands: Position, busy_share: float | None) -> bool:
        """Return whether the main thread is inside the framework and neither compiles nor computes.

        The user's line may call C++ directly (a jitted function, `block_until_ready`). Then no Python frame of the
        framework is on the stack, and the main thread counts as inside the framework if it waits for another
        thread. An agreement with other processes always counts as a wait, although its polling takes some
        processor time.
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
        return structs.replace(idle, **running)


REPEAT_SECONDS = 1.8
"""Time after which a section is due again even if it has not changed.

A kernel that attaches must know everything after two seconds, and a look may come a little late.
"""

REPEAT_ACTIVITY_SECONDS = 0.9
"""The same time for the activity."""


def without_measures(activity: Activity) -> Activity:
    """Return an activity without the numbers that always change a little."""
    return structs.replace(activity, cell_seconds=None, line_seconds=None, rss_bytes=0)


class Sections:
    """Sections of a report that are due: changed ones, and each one again after a while.

    Kept of each section are its newest version, and when it was last published.
    """

    def __init__(self) -> None:
        self._newest: dict[str, Any] = {}
        self._compared: dict[str, Any] = {}
        self._published: dict[str, tuple[Any, float]] = {}

    def put(self, name: str, section: Any) -> None:
        """Take a section that is due whenever anything in it changes."""
        self._newest[name] = self._compared[name] = section

    def put_activity(self, activity: Activity) -> None:
        """Take the activity; it is not due if only seconds or bytes have changed."""
        self._newest["activity"] = activity
        self._compared["activity"] = without_measures(activity)

    def due(self, now: float) -> dict[str, Any]:
        """Return the sections to publish now, by name."""
        return {name: section for name, section in self._newest.items() if self._is_due(name, now)}

    def sent(self, due: dict[str, Any], now: float) -> bool:
        """Note that the sections that were due have been published; return whether any of them was new."""
        before = {name: self._published.get(name) for name in due}
        for name in due:
            self._published[name] = (self._compared[name], now)
        return any(was is None or was[0] != self._compared[name] for name, was in before.items())

    def forget(self) -> None:
        """Make all sections due again; safe from any thread."""
        self._published = {}

    def _is_due(self, name: str, now: float) -> bool:
        if name not in self._published:
            return True
        section, at = self._published[name]
        after = REPEAT_ACTIVITY_SECONDS if name == "activity" else REPEAT_SECONDS
        return now - at >= after or bool(section != self._compared[name])


class Pace:
    """Spacing of work so that its processor time stays under a share of wall time.

    Only the processor time of the calling thread counts: while the thread waits for the interpreter's lock, it
    slows no other thread.

    Args:
      share: The share of wall time, such as 0.005.
      least_seconds: Least seconds from the start of one turn to the next, however cheap a turn is.
      most_seconds: Most seconds from one turn to the next, however expensive the turn was. A turn may look
        expensive only because Python collected all garbage in the middle of it; that must not silence a process
        for a minute.
    """

    def __init__(self, *, share: float, least_seconds: float, most_seconds: float) -> None:
        self._share = share
        self._least = least_seconds
        self._most = most_seconds
        self._next = 0.0
        self._began = threading.local()

    def due(self) -> bool:
        """Return whether the next turn may start now."""
        return time.monotonic() >= self._next

    def hurry(self) -> None:
        """Make the next turn due now, as when a person asks."""
        self._next = 0.0

    def __enter__(self) -> None:
        """Start the clock; processor time inside the block counts."""
        self._began.at = time.thread_time()
        self._next = max(self._next, time.monotonic())

    def __exit__(self, *exception: object) -> None:
        cost = time.thread_time() - self._began.at
        latest = time.monotonic() + self._most
        self._next = min(self._next + cost / self._share, latest)

    def turn(self) -> Pace:
        """Begin a new turn, for `with pace.turn():`; a plain `with pace:` adds work to the last turn."""
        self._next = time.monotonic() + self._least
        return self


@dataclass(slots=True)
class _Last:
    """The newest progress of this process, replaced as a whole: readers on other threads need no lock."""

    progress: Progress | None = None
    evaluation: str = "evaluate"


_last = _Last()


def note(what: str, metrics: Mapping[str, Any]) -> None:
    """Note how far training or evaluation is on this process, for the next report; safe from any thread.

    Args:
      what: Such as `"fit, epoch 2 of 5"` or `"evaluate, checkpoint ckpt-3"`.
      metrics: Numbers by name, such as a loss. A value that is no finite number is left out.
    """
    numbers = {str(name): _number(value) for name, value in metrics.items()}
    _last.progress = Progress(
        what=str(what),
        metrics=tuple(
            Metric(name=name, value=value) for name, value in numbers.items() if value is not None
        ),
    )


@contextlib.contextmanager
def evaluating(what: str) -> Iterator[None]:
    """Note evaluations within this block under a name, such as `"evaluate, checkpoint ckpt-3"`."""
    before, _last.evaluation = _last.evaluation, what
    try:
        yield
    finally:
        _last.evaluation = before


def evaluation() -> str:
    """Return the name under which an evaluation is noted now."""
    return _last.evaluation


def newest() -> tuple[Progress, ...]:
    """Return the progress that was noted last; empty before the first."""
    progress = _last.progress
    return (progress,) if progress is not None else ()


def _number(value: Any) -> float | None:
    # Only Python numbers: asking an array for its value may wait for a device.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
