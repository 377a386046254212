"""Rehearsals in processes of their own, side by side: how far each is, what its process reports, and how it ends.

A `Run` is a cell (`cells.py`) or a script (`script.py`) on one mesh. `side_by_side` advances several, or one
alone, until all have ended, as many at once as this machine has processors.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TextIO

from nbdist.contract.program import Compiling, Program, from_line
from nbdist.errors import NbdistError
from nbdist.notation import bytes_text, count_text, seconds_text
from nbdist.rehearsal import libtpu
from nbdist.rehearsal.comparison import Comparison, Rehearsed
from nbdist.rehearsal.mesh import AskedPod
from nbdist.view.progress import ChangingOutput

LOOKED_S = 0.1
"""How often each rehearsal is advanced."""

GRACE_S = 5
"""Seconds that an interrupted rehearsal may take to end; the compiler does not end in the middle."""

SHOWN_S = 0.5
"""Seconds between two updates of a display in which only the times have changed."""

LOOKED_AT = 65536
"""Number of characters of the last output that are searched for the words for a lack of memory.

After these words come a hundred lines of how the compiler aborts.
"""

LAST = 4000
"""Number of characters of the last output that are shown."""

_NO_MEMORY = re.compile(r"Cannot allocate memory|mmap error: 12\b|bad_alloc")
"""Messages of libtpu, the C library and C++ about a lack of memory."""

_LESS = "A smaller program, such as a scan over layers in place of a loop over them, needs less."

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


class Run(ABC):
    """One rehearsal, a cell or a script on one mesh, in a process of its own.

    Args:
      pod: The pod, with its mesh.
    """

    def __init__(self, pod: AskedPod) -> None:
        self.pod = pod
        self.programs: list[Program] = []
        """Programs that the process has reported, in order."""
        self.failure: NbdistError | None = None
        """Why it did not come to its end; None as long as nothing is wrong."""
        self._began: float | None = None
        self._took: float | None = None
        self._compiling = ""
        self._read = 0
        self._folder = tempfile.TemporaryDirectory(prefix="nbdist-rehearse-")
        self.report = Path(self._folder.name) / "report"
        """The file that the process writes; see `nbdist.contract.program`."""
        self.report.touch()

    @property
    def waits(self) -> bool:
        """Return whether it has not begun."""
        return self._began is None

    @property
    def active(self) -> bool:
        """Return whether it has begun and not ended."""
        return self._began is not None and self._took is None

    @property
    def ended(self) -> bool:
        """Return whether it has ended, well or not."""
        return self._took is not None

    @property
    def seconds(self) -> float:
        """Seconds since it began, up to its end."""
        if self._took is not None or self._began is None:
            return self._took or 0.0
        return time.monotonic() - self._began

    def state(self) -> RunState:
        """Return how far it is."""
        phase: Phase = "compiling" if self._compiling else "running"
        if self._began is None:
            phase = "waiting"
        elif self.ended:
            phase = "ended" if self.failure is None else "failed"
        elif not self._runs():
            phase = "starting"
        return RunState(
            mesh=self.pod.label,
            phase=phase,
            compiling=self._compiling,
            programs=len(self.programs),
            seconds=self.seconds,
        )

    def begin(self) -> None:
        """Begin it."""
        self._began = time.monotonic()
        try:
            self._start()
        except NbdistError as error:
            self._failed(error)

    def advance(self, wait_s: float, timeout_s: float | None) -> None:
        """Advance it for up to `wait_s`, and give it up after `timeout_s`."""
        try:
            ended = self._step(wait_s)
        except NbdistError as error:
            self._read_report()
            self._failed(error)
            return
        self._read_report()
        if ended:
            self._took, self.failure = self.seconds, self._outcome()
        elif timeout_s is not None and self._runs() and self.seconds > timeout_s:
            self._failed(self._give_up(timeout_s))

    def rehearsed(self) -> Rehearsed:
        """Return its result."""
        failure = "" if self.failure is None else str(self.failure)
        return Rehearsed(
            pod=self.pod,
            programs=tuple(self.programs),
            failure=failure,
            output=self._printed(),
        )

    @abstractmethod
    def _start(self) -> None:
        """Begin its process."""

    @abstractmethod
    def _step(self, wait_s: float) -> bool:
        """Advance for up to `wait_s`; return whether it has ended.

        Raises:
          NbdistError: It could not be started, or its process ended.
        """

    @abstractmethod
    def _runs(self) -> bool:
        """Return whether the code itself runs, or has run, so that its time counts."""

    @abstractmethod
    def _outcome(self) -> NbdistError | None:
        """Return why it did not come to its end, now that it has ended; None where it did."""

    @abstractmethod
    def _give_up(self, timeout_s: float) -> NbdistError:
        """End it after the time that it was given; return what is to be said."""

    @abstractmethod
    def _printed(self) -> str:
        """Return the text that it has printed, unless this was shown as it came."""

    @abstractmethod
    def interrupt(self) -> None:
        """Interrupt it, and end its process where that does nothing within `GRACE_S`."""

    @abstractmethod
    def end(self) -> None:
        """End its process at once, if there is one."""

    def _failed(self, why: NbdistError) -> None:
        self._took, self.failure = self.seconds, why

    def _remove_report(self) -> None:
        """Read what is left of the report, and remove it."""
        self._read_report()
        self._folder.cleanup()

    def _read_report(self) -> None:
        """Read what has come since; a line that is not complete waits."""
        if not self.report.exists():
            return
        with self.report.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            reported = from_line(line)
            if isinstance(reported, Compiling):
                self._compiling = reported.name
            else:
                self._compiling = ""
                self.programs.append(reported.program)


Progress = Callable[[Sequence[RunState]], None]


def side_by_side(
    runs: Sequence[Run], *, timeout_s: float | None, progress: Progress, most: int | None = None
) -> Comparison:
    """Advance runs until all have ended.

    Args:
      runs: The runs.
      timeout_s: The time each may take from its start; None for no limit.
      progress: Called again and again with the state of each, where there are several.
      most: How many run at once; default: as many as this process may use processors.

    Raises:
      KeyboardInterrupt: It was interrupted. Of several, all processes have ended, and the text says where each
        stood.
    """
    most = most or _processors()
    try:
        while not all(run.ended for run in runs):
            for run in runs:
                if run.waits and sum(one.active for one in runs) < most:
                    run.begin()
            active = [run for run in runs if run.active]
            for run in active:
                run.advance(LOOKED_S / len(active), timeout_s)
            if len(runs) > 1:
                progress([run.state() for run in runs])
    except KeyboardInterrupt:
        if len(runs) == 1:
            runs[0].interrupt()
            raise
        stood = "; ".join(str(run.state()) for run in runs)
        _end(runs)
        raise KeyboardInterrupt(
            f"The rehearsals were interrupted, and their processes have ended. They stood: {stood}."
        ) from None
    except BaseException:
        _end(runs)
        raise
    return Comparison(tuple(run.rehearsed() for run in runs))


def _end(runs: Sequence[Run]) -> None:
    for run in runs:
        run.end()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SideBySideDisplay:
    """Progress of runs side by side, called with the state of each.

    Args:
      in_notebook: Whether there is a display to be updated; otherwise lines are printed.
      file: Gets the lines of a terminal; default: standard output.
    """

    def __init__(self, *, in_notebook: bool, file: TextIO | None = None) -> None:
        self._in_notebook = in_notebook
        self._file = file
        self._output = ChangingOutput()
        self._shown_at = 0.0
        self._last: dict[str, tuple[Phase, str]] = {}

    def __call__(self, states: Sequence[RunState]) -> None:
        """Show the states, if one has changed or the times are old."""
        looks = {each.mesh: (each.phase, each.compiling) for each in states}
        changed = [each for each in states if self._last.get(each.mesh) != looks[each.mesh]]
        self._last = looks
        if not self._in_notebook:
            for each in changed:
                print(each, file=self._file or sys.stdout, flush=True)
        elif changed or time.monotonic() - self._shown_at > SHOWN_S:
            self._shown_at = time.monotonic()
            self._output.show({"text/plain": "\n".join(map(str, states))})


def variables() -> dict[str, str]:
    """Return the environment variables of a rehearsal's process.

    Raises:
      RehearsalError: libtpu is not there.
    """
    return {
        **os.environ,
        **libtpu.variables(libtpu.find()),
        # The pod is JAX's TPU there; values that are computed while a program is traced are computed on the CPU.
        "JAX_PLATFORMS": "tpu,cpu",
        # JAX cannot load what its own cache keeps for devices that are not there, and would warn each time.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }


def how_it_ended(code: int | None, said: str | None = None) -> str:
    """Return a sentence or two about how a process ended.

    Args:
      code: Its exit code; negative for a signal, None where it is not known.
      said: Its last output; None where that went elsewhere.
    """
    if code == -signal.SIGKILL:
        return (
            f"The rehearsal's process was killed (signal 9): as a rule this machine, which has {_memory()}, had "
            f"not enough memory to compile. {_LESS}"
        )
    signalled = code is not None and code < 0
    how = f"by signal {-(code or 0)}" if signalled else f"with exit code {code}"
    ended = f"The rehearsal's process ended {how}"
    if lacks_memory(code, said):
        return (
            f"{ended}: it was given no more memory to compile. This machine has {_memory()}; a limit may be lower "
            f"(ulimit -v). {_LESS}"
        )
    if signalled and said is None:
        return f"{ended}. Where its last words above speak of memory: this machine has {_memory()}. {_LESS}"
    return f"{ended}."


def lacks_memory(code: int | None, said: str | None) -> bool:
    """Return whether a process ended for want of memory; arguments as for `how_it_ended`."""
    aborted = code is not None and code < 0
    return code == -signal.SIGKILL or (aborted and _NO_MEMORY.search(said or "") is not None)


def end_of(file: IO[bytes]) -> str:
    """Return the end of what a process has written to a file: `LOOKED_AT` bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LOOKED_AT))
    return file.read().decode(errors="replace").strip()


def _memory() -> str:
    return bytes_text(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
