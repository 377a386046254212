"""Scripts on a pod that is not there, for `nbdist rehearse`: a process for each, and its outcome.

`run_script` runs a script on one mesh; `OneScript` is a script on one of several meshes, rehearsed side by side.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nbdist.contract.program import Program
from nbdist.errors import OptionError
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.run.asked import (
    LOOKED_AT,
    AskedPod,
    ReportFile,
    how_it_ended,
    lacks_memory,
    variables,
)
from nbdist.rehearsal.run.comparison import Rehearsed
from nbdist.rehearsal.run.side_by_side import Phase

GRACE_S = 5
"""Seconds that an interrupted script may take to end; the compiler does not end in the middle."""

FITS, DOES_NOT_FIT, NOT_RUN = 0, 1, 2
"""Exit codes of a script's rehearsal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a script.

    Attributes:
      exit_code: `FITS`, `DOES_NOT_FIT` where a program does not fit, or `NOT_RUN` where the script did not come to
        its end or compiled nothing.
      programs: The programs, in the order in which they were compiled.
      ran: Whether the script came to its end and has compiled something.
      reason: Why the script did not; empty where the script has said so itself.
    """

    exit_code: int
    programs: tuple[Program, ...]
    ran: bool
    reason: str = ""


class ScriptProcess:
    """A script in a process whose devices are those of a pod that is not there.

    Args:
      script: A Python file; it finds the mesh under the name `mesh`.
      arguments: The script's arguments.
      pod: The rehearsal's pod.
      value: The number that stands in for values; None for none.
      output: The file descriptor for its standard output; None for that of this process.
      errors: Likewise for its standard error.
      silent: Whether its programs are not printed.

    Raises:
      OptionError: There is no such script.
      RehearsalError: libtpu is not there.
    """

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        *,
        pod: AskedPod,
        value: float | None,
        output: int | None = None,
        errors: int | None = None,
        silent: bool = False,
    ) -> None:
        check_script(script)
        found = libtpu.find()
        self._script = script
        self._folder = tempfile.TemporaryDirectory(prefix="nbdist-rehearse-")
        self.report = ReportFile(Path(self._folder.name) / "report")
        options = ["--report", str(self.report.path), "--parent", str(os.getpid())]
        options += ["--topology", pod.topology, "--slices", str(pod.slices)]
        options += ["--mesh", pod.mesh] if pod.mesh is not None else []
        options += ["--value", str(value)] if value is not None else []
        options += ["--silent"] if silent else []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.rehearsal.pod", *options, str(script), *arguments],
            env=variables(os.environ, found),
            stdout=output,
            stderr=errors,
        )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; negative for a signal."""
        return self._process.returncode

    def wait(self, seconds: float | None) -> bool:
        """Wait for the process; return whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def outcome(self, reason: str = "", said: str = "") -> Outcome:
        """Return the result of the script, once it has ended.

        Args:
          reason: Why the script was ended before its end; empty where it was not.
          said: The end of its standard error; empty where that went elsewhere.
        """
        self.report.read()
        self._folder.cleanup()
        compiled, code = tuple(self.report.programs), self._process.returncode
        if code not in (0, 2) and not reason:
            reason = how_it_ended(code, said)
        if not compiled and not reason and code == 0:
            reason = f"{self._script} has compiled no program: it calls no function that jax.jit has made."
        ran = code == 0 and not reason
        if not all(program.fits for program in compiled):
            return Outcome(exit_code=DOES_NOT_FIT, programs=compiled, ran=ran, reason=reason)
        return Outcome(
            exit_code=FITS if ran else NOT_RUN, programs=compiled, ran=ran, reason=reason
        )

    def stop(self, grace_s: float) -> None:
        """Interrupt the script, and end it after `grace_s`; at once where that is 0."""
        if grace_s and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self.wait(grace_s)
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the script at once."""
        self.stop(0)
        self._folder.cleanup()


def check_script(script: Path) -> None:
    """Raise OptionError where there is no such script."""
    if not script.is_file():
        raise OptionError(f"{script} is no file.")


def too_long(timeout_s: float) -> str:
    """Return a sentence that a script was ended because it took too long."""
    return f"It did not end within {timeout_s:g} s (--timeout) and was ended."


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    pod: AskedPod,
    value: float | None,
    timeout_s: float | None,
    output: int | None = None,
) -> Outcome:
    """Run a script to its end, see `ScriptProcess`.

    Args:
      script: As for `ScriptProcess`, like all others.
      arguments: Likewise.
      pod: Likewise.
      value: Likewise.
      timeout_s: The most seconds that the script may take; None for no limit.
      output: Likewise.

    Raises:
      OptionError: There is no such script.
      RehearsalError: libtpu is not there.
      KeyboardInterrupt: This process was interrupted, and the script has ended.
    """
    process = ScriptProcess(script, arguments, pod=pod, value=value, output=output)
    try:
        ended = process.wait(timeout_s)
    except BaseException:
        process.stop(GRACE_S)
        process.end()
        raise
    if not ended:
        process.stop(GRACE_S)
    return process.outcome("" if ended or timeout_s is None else too_long(timeout_s))


_LAST = 4000
"""Characters of a script's standard error that are shown with its failure."""


class OneScript:
    """A script on one of the meshes: one of several rehearsals side by side.

    Args:
      script: A Python file.
      arguments: The script's arguments.
      pod: The pod, with its mesh.
      value: The number that stands in for values; None for none.
    """

    def __init__(
        self, script: Path, arguments: Sequence[str], *, pod: AskedPod, value: float | None
    ) -> None:
        self.pod = pod
        self._script, self._arguments, self._value = script, arguments, value
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: ScriptProcess | None = None
        self._reason = ""

    def start(self) -> None:
        """Begin its process."""
        self._process = ScriptProcess(
            self._script,
            self._arguments,
            pod=self.pod,
            value=self._value,
            output=self._output.fileno(),
            errors=self._errors.fileno(),
            silent=True,
        )

    def advance(self, wait_s: float) -> bool:
        """Wait up to `wait_s`; return whether the script has ended."""
        assert self._process is not None
        ended = self._process.wait(wait_s)
        self._process.report.read()
        return ended

    def state(self) -> tuple[Phase, str, int]:
        """Return the phase, the function that is being compiled, and the number of programs."""
        if self._process is None:
            return "waiting", "", 0
        report = self._process.report
        phase: Phase = "compiling" if report.compiling else "running"
        return "ended" if self._process.wait(0) else phase, report.compiling, len(report.programs)

    def give_up(self, seconds: float) -> str:
        """End the script at once; return what is to be said."""
        assert self._process is not None
        self._process.stop(0)
        self._reason = too_long(seconds)
        return self._reason

    def end(self) -> None:
        """End its process at once."""
        if self._process is not None:
            self._process.end()
        self._output.close()
        self._errors.close()

    def rehearsed(self, failure: str) -> Rehearsed:
        """Return the result of the script."""
        if self._process is None:
            return Rehearsed(pod=self.pod, programs=(), failure=failure)
        said = _text(self._errors)
        outcome = self._process.outcome(self._reason, said[-LOOKED_AT:] or " ")
        if not failure and not outcome.ran:
            alone = lacks_memory(self._process.code, said[-LOOKED_AT:])
            last = "" if alone else said[-_LAST:].strip()
            failure = "\n".join(filter(None, (outcome.reason, last)))
            failure = failure or "It did not come to its end."
        printed = _text(self._output)
        self.end()
        return Rehearsed(pod=self.pod, programs=outcome.programs, failure=failure, output=printed)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
