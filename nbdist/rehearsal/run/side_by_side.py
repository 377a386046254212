"""Several rehearsals side by side, as many at once as this machine has processors, until all have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nbdist.errors import NbdistError
from nbdist.notation import count_text, seconds_text
from nbdist.rehearsal.run.asked import AskedPod
from nbdist.rehearsal.run.comparison import Comparison, Rehearsed

LOOKED_S = 0.1
"""How often each rehearsal is advanced."""

Phase = Literal["waiting", "starting", "running", "compiling", "ended", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """How far one rehearsal is.

    Attributes:
      mesh: Its mesh, as a person types it.
      phase: `running` is the code itself, between two compilations.
      compiling: The function that is being compiled.
      programs: The number of compiled programs.
      seconds: Since it began, up to its end.
    """

    mesh: str
    phase: Phase
    compiling: str
    programs: int
    seconds: float

    def __str__(self) -> str:
        """Return `data=4,model=4: compiling step, 3.2 s`."""
        if self.phase == "waiting":
            return f"{self.mesh}: waiting for a processor"
        what = f"compiling {self.compiling}" if self.phase == "compiling" else self.phase
        if self.phase in ("ended", "failed"):
            what += f" with {count_text(self.programs, 'program')}"
        return f"{self.mesh}: {what}, {seconds_text(self.seconds)}"


class One(Protocol):
    """One of the rehearsals: a cell or a script."""

    pod: AskedPod

    def start(self) -> None:
        """Begin its process."""

    def advance(self, wait_s: float) -> bool:
        """Advance for up to `wait_s`; return whether the rehearsal has ended.

        Raises:
          NbdistError: It could not be started, or its process ended.
        """

    def state(self) -> tuple[Phase, str, int]:
        """Return its phase, the function that is being compiled, and the number of programs."""

    def give_up(self, seconds: float) -> str:
        """End it after the time it was given; return what is to be said."""

    def end(self) -> None:
        """End its process at once, if there is one."""

    def rehearsed(self, failure: str) -> Rehearsed:
        """Return the result of the rehearsal.

        Args:
          failure: Why it did not come to its end; empty where the rehearsal knows.
        """


Progress = Callable[[Sequence[RunState]], None]


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(
    ones: Sequence[One],
    *,
    timeout_s: float | None,
    progress: Progress,
    most: int | None = None,
) -> Comparison:
    """Run rehearsals until all have ended.

    Args:
      ones: The rehearsals.
      timeout_s: The time each may take from its start; None for no limit.
      progress: Called again and again with the state of each.
      most: How many run at once; default: as many as there are processors.

    Raises:
      KeyboardInterrupt: It was interrupted: all processes have ended, and the text says where each stood.
    """
    runs = [_Run(one) for one in ones]
    most = most or processors()
    try:
        while not all(run.ended for run in runs):
            for run in runs:
                if run.began is None and sum(other.active for other in runs) < most:
                    run.begin()
            active = [run for run in runs if run.active]
            for run in active:
                run.advance(LOOKED_S / len(active), timeout_s)
            progress([run.state() for run in runs])
    except KeyboardInterrupt:
        stood = "; ".join(str(run.state()) for run in runs)
        _end(runs)
        raise KeyboardInterrupt(
            f"The rehearsals were interrupted, and their processes have ended. They stood: {stood}."
        ) from None
    except BaseException:
        _end(runs)
        raise
    return Comparison(tuple(run.one.rehearsed(run.failure) for run in runs))


class _Run:
    """One rehearsal, with its time."""

    def __init__(self, one: One) -> None:
        self.one = one
        self.failure = ""
        self.began: float | None = None
        self.took: float | None = None

    @property
    def active(self) -> bool:
        return self.began is not None and self.took is None

    @property
    def ended(self) -> bool:
        return self.took is not None

    @property
    def seconds(self) -> float:
        if self.took is not None or self.began is None:
            return self.took or 0.0
        return time.monotonic() - self.began

    def begin(self) -> None:
        self.began = time.monotonic()
        try:
            self.one.start()
        except NbdistError as error:
            self._failed(str(error))

    def advance(self, wait_s: float, timeout_s: float | None) -> None:
        try:
            if self.one.advance(wait_s):
                self.took = self.seconds
            elif timeout_s is not None and self.seconds > timeout_s:
                self._failed(self.one.give_up(timeout_s))
        except NbdistError as error:
            self._failed(str(error))

    def state(self) -> RunState:
        phase, compiling, programs = self.one.state()
        if self.began is None:
            phase = "waiting"
        elif self.failure:
            phase = "failed"
        return RunState(
            mesh=self.one.pod.label,
            phase=phase,
            compiling=compiling,
            programs=programs,
            seconds=self.seconds,
        )

    def _failed(self, why: str) -> None:
        self.took, self.failure = self.seconds, why


def _end(runs: Sequence[_Run]) -> None:
    for run in runs:
        run.one.end()
