"""Rehearsals in separate processes, side by side: the progress of each, its process's report, and its end.

A `Run` is a cell (`cells.py`) or a script on one mesh. `side_by_side` advances one or more runs until all have
ended, with at most as many at once as this machine has processors. `nbdist rehearse` calls `rehearse_script`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TextIO

from nbdist.contract.program import Compiling, Program, from_line
from nbdist.errors import NbdistError, OptionError, RehearsalError
from nbdist.notation import count_text, seconds_text
from nbdist.rehearsal.comparison import Comparison, Rehearsed
from nbdist.rehearsal.libtpu import LAST, end_of, how_it_ended, lacks_memory, process_variables
from nbdist.rehearsal.mesh import AskedPod, read_each
from nbdist.view.progress import ChangingOutput

LOOKED_S = 0.1
"""How often each rehearsal is advanced."""

GRACE_S = 5
"""Seconds that an interrupted rehearsal may take to end; the compiler does not end in the middle."""

SHOWN_S = 0.5
"""Seconds between two updates of a display in which only the times have changed."""

Phase = Literal["waiting", "starting", "running", "compiling", "ended", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Progress of one rehearsal.

    Attributes:
      mesh: Its mesh, as a person types it.
      phase: `running` means that the code itself runs, between two compilations.
      compiling: The function that is being compiled.
      programs: The number of compiled programs.
      seconds: Seconds since its start; after its end, how long it took.
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
    """One rehearsal, a cell or a script on one mesh, in a separate process.

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
        """Return whether the run has not begun."""
        return self._began is None

    @property
    def active(self) -> bool:
        """Return whether the run has begun and not ended."""
        return self._began is not None and self._took is None

    @property
    def ended(self) -> bool:
        """Return whether the run has ended, with or without a failure."""
        return self._took is not None

    @property
    def seconds(self) -> float:
        """Return the seconds since the run began; after its end, how long it took."""
        if self._took is not None or self._began is None:
            return self._took or 0.0
        return time.monotonic() - self._began

    def state(self) -> RunState:
        """Return the progress of the run."""
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
        """Begin the run; a failure to start becomes its `failure`."""
        self._began = time.monotonic()
        try:
            self._start()
        except NbdistError as error:
            self._failed(error)

    def advance(self, wait_s: float, timeout_s: float | None) -> None:
        """Advance the run for up to `wait_s` seconds, and give it up `timeout_s` seconds after its start."""
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
        """Return the result of the run."""
        failure = "" if self.failure is None else str(self.failure)
        return Rehearsed(
            pod=self.pod,
            programs=tuple(self.programs),
            failure=failure,
            output=self._printed(),
        )

    @abstractmethod
    def _start(self) -> None:
        """Start the process of the run."""

    @abstractmethod
    def _step(self, wait_s: float) -> bool:
        """Advance for up to `wait_s` seconds; return whether the run has ended.

        Raises:
          NbdistError: It could not be started, or its process ended.
        """

    @abstractmethod
    def _runs(self) -> bool:
        """Return whether the code has begun to run: from then on the time limit applies."""

    @abstractmethod
    def _outcome(self) -> NbdistError | None:
        """Return why a run that has ended did not complete; None if it did."""

    @abstractmethod
    def _give_up(self, timeout_s: float) -> NbdistError:
        """End a run whose time is over; return the error to report."""

    @abstractmethod
    def _printed(self) -> str:
        """Return the text that the code printed; empty if it was shown as it came."""

    @abstractmethod
    def interrupt(self) -> None:
        """Interrupt the run; if it is still running after `GRACE_S` seconds, end its process."""

    @abstractmethod
    def end(self) -> None:
        """End the run's process at once, if there is one."""

    def _failed(self, why: NbdistError) -> None:
        self._took, self.failure = self.seconds, why

    def _remove_report(self) -> None:
        """Read the rest of the report, and remove the file."""
        self._read_report()
        self._folder.cleanup()

    def _read_report(self) -> None:
        """Read the new complete lines of the report; an incomplete line is left for the next call."""
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
      progress: Called repeatedly with the state of each run, if there are several.
      most: The most runs at once; default: the number of processors this process may use.

    Raises:
      KeyboardInterrupt: The wait was interrupted. If there are several runs, all their processes have ended, and
        the message says how far each was.
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
        """Show the states if one has changed, or if the displayed times are out of date."""
        looks = {each.mesh: (each.phase, each.compiling) for each in states}
        changed = [each for each in states if self._last.get(each.mesh) != looks[each.mesh]]
        self._last = looks
        if not self._in_notebook:
            for each in changed:
                print(each, file=self._file or sys.stdout, flush=True)
        elif changed or time.monotonic() - self._shown_at > SHOWN_S:
            self._shown_at = time.monotonic()
            self._output.show({"text/plain": "\n".join(map(str, states))})


SAID_ITSELF = 2
"""Exit code of a script's process that has written why the script did not come to its end."""


class ScriptRun(Run):
    """A script in a process whose devices are those of the rehearsed pod.

    Args:
      script: A Python file; it finds the mesh under the name `mesh`.
      arguments: The script's arguments.
      pod: The rehearsal's pod.
      value: The number that stands in for values; None for none.
      alone: Whether it is the only run: its output and programs are then shown as they come, else kept.
      output: The file descriptor for the script's standard output if `alone`; None: this process's.
    """

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        *,
        pod: AskedPod,
        value: float | None,
        alone: bool = False,
        output: int | None = None,
    ) -> None:
        super().__init__(pod)
        options = ["--report", str(self.report), "--parent", str(os.getpid())]
        options += ["--topology", pod.topology, "--slices", str(pod.slices)]
        options += ["--mesh", pod.mesh] if pod.mesh is not None else []
        options += ["--value", str(value)] if value is not None else []
        options += [] if alone else ["--silent"]
        self._script = script
        self._arguments = [*options, str(script), *arguments]
        self._kept: list[IO[bytes]] = []
        """Files for the script's standard output and standard error; empty if these are shown as they come."""
        if not alone:
            self._kept = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        output, errors = self._kept or (self._output, None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.rehearsal.rehearsal", *self._arguments],
            env=process_variables(),
            stdout=output,
            stderr=errors,
        )

    def _step(self, wait_s: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _runs(self) -> bool:
        return True

    def _outcome(self) -> NbdistError | None:
        assert self._process is not None
        code = self._process.returncode
        if code == 0:
            nothing = f"{self._script} has compiled no program: it calls no function that jax.jit has made."
            return None if self.programs else RehearsalError(nothing)
        said = end_of(self._kept[1]) if self._kept else None
        why = [] if code == SAID_ITSELF else [how_it_ended(code, said)]
        if said and not lacks_memory(code, said):
            why.append(said[-LAST:])
        return RehearsalError("\n".join(why) or f"{self._script} did not come to its end.")

    def _give_up(self, timeout_s: float) -> NbdistError:
        self.interrupt()
        return RehearsalError(f"It did not end within {timeout_s:g} s (--timeout) and was ended.")

    def _printed(self) -> str:
        if not self._kept:
            return ""
        self._kept[0].seek(0)
        return self._kept[0].read().decode(errors="replace")

    def interrupt(self) -> None:
        """Interrupt the script; kill it if it has not ended after `GRACE_S` seconds."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._step(GRACE_S)
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End the script at once, and remove its files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for file in self._kept:
            file.close()
        self._remove_report()


def rehearse_script(
    script: Path,
    arguments: Sequence[str],
    *,
    topology: str,
    meshes: Sequence[str],
    slices: int = 1,
    value: float | None = None,
    timeout_s: float | None = None,
    output: int | None = None,
) -> Comparison:
    """Run a script on each mesh, side by side; with one mesh, its output is shown as it comes.

    Args:
      script: A Python file; it finds the mesh under the name `mesh`.
      arguments: The script's arguments.
      topology: The topology of the pod.
      meshes: The axes of each mesh; none for no mesh.
      slices: The number of slices of this topology.
      value: The number that stands in for values; None for none.
      timeout_s: The most seconds that the script may take on each mesh; None for no limit.
      output: The file descriptor for what it prints on one mesh; None for standard output.

    Raises:
      OptionError: There is no such pod or script; nothing was started.
      RehearsalError: libtpu is not there.
      KeyboardInterrupt: It was interrupted, and all processes have ended.
    """
    pods = read_each(topology, meshes, slices=slices)
    if not script.is_file():
        raise OptionError(f"{script} is no file.")
    process_variables()
    alone = len(pods) == 1
    runs = [
        ScriptRun(script, arguments, pod=pod, value=value, alone=alone, output=output)
        for pod in pods
    ]
    progress = SideBySideDisplay(in_notebook=False, file=sys.stderr)
    try:
        return side_by_side(runs, timeout_s=timeout_s, progress=progress)
    finally:
        for run in runs:
            run.end()
