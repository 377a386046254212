"""A script on a pod that is not there: `nbdist rehearse`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.contract.program import Program
from nbdist.errors import OptionError
from nbdist.rehearsal import libtpu
from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.ended import how_it_ended
from nbdist.rehearsing.reported import ReportFile
from nbdist.rehearsing.variables import variables

GRACE_S = 5
"""How long an interrupted script may take to end; the compiler does not end in the middle."""

FITS, DOES_NOT_FIT, NOT_RUN = 0, 1, 2
"""The exit codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a script.

    Attributes:
      exit_code: `FITS`, `DOES_NOT_FIT` where a program does not, or `NOT_RUN` where the script did not come to its
        end or compiled nothing.
      programs: In the order in which they were compiled.
      ran: Whether it came to its end, and has compiled something.
      reason: Why it is `NOT_RUN`; empty where the script has said so itself.
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
      value: Stands in for values.
      output: The file descriptor for its standard output; None for that of this process.
      errors: Likewise for its standard error.
      silent: Whether it does not print its programs.

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
            [sys.executable, "-m", "nbdist.pod", *options, str(script), *arguments],
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
          reason: Why it was ended before; empty where it was not.
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
      timeout_s: None for no limit.
      output: Likewise.

    Raises:
      OptionError: There is no such script.
      RehearsalError: libtpu is not there.
      KeyboardInterrupt: It was interrupted, and has ended.
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
