"""A script on a pod that is not there: `nbdist rehearse`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.errors import OptionError
from nbdist.rehearsal import libtpu
from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.ended import how_it_ended
from nbdist.rehearsing.variables import variables

GRACE_S = 5
"""So long an interrupted script may take to end; the compiler does not end in the middle."""

FITS, DOES_NOT_FIT, NOT_RUN = 0, 1, 2
"""The exit codes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a script.

    Attributes:
      exit_code: `FITS`, `DOES_NOT_FIT` where a program does not, or `NOT_RUN` where the script did not come to its
        end or compiled nothing.
      programs: Each as plain data, in the order in which they were compiled.
      reason: Why it is `NOT_RUN`; empty where the script has said so itself.
    """

    exit_code: int
    programs: tuple[dict[str, Any], ...]
    reason: str = ""


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    pod: AskedPod,
    value: float | None,
    timeout_s: float | None,
    output: int | None = None,
) -> Outcome:
    """Runs a script in a process whose devices are those of a pod that is not there.

    Args:
      script: A file of Python; it finds the mesh under the name `mesh`.
      arguments: Of the script.
      pod: That of the rehearsal.
      value: What stands in for values.
      timeout_s: None for no limit.
      output: The file descriptor that has what it prints; None for that of this process.

    Raises:
      OptionError: There is no such script.
      RehearsalError: libtpu is not there.
      KeyboardInterrupt: It was interrupted, and has ended.
    """
    if not script.is_file():
        raise OptionError(f"{script} is no file.")
    found = libtpu.find()
    with tempfile.TemporaryDirectory(prefix="nbdist-rehearse-") as folder:
        programs = Path(folder) / "programs"
        programs.touch()
        options = ["--programs", str(programs)]
        options += ["--topology", pod.topology, "--slices", str(pod.slices)]
        options += ["--mesh", pod.mesh] if pod.mesh is not None else []
        options += ["--value", str(value)] if value is not None else []
        process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.pod", *options, str(script), *arguments],
            env=variables(os.environ, found),
            stdout=output,
        )
        reason = _wait(process, timeout_s)
        lines = programs.read_text().splitlines()
    compiled = tuple(json.loads(line) for line in lines)
    if process.returncode not in (0, 2) and not reason:
        reason = how_it_ended(process.returncode)
    if not compiled and not reason and process.returncode == 0:
        reason = f"{script} has compiled no program: it calls no function that jax.jit has made."
    if not all(program["fits"] for program in compiled):
        return Outcome(exit_code=DOES_NOT_FIT, programs=compiled, reason=reason)
    failed = reason or process.returncode != 0
    return Outcome(exit_code=NOT_RUN if failed else FITS, programs=compiled, reason=reason)


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> str:
    """Waits for its end; returns why it was ended before."""
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _stop(process)
        return f"It did not end within {timeout_s:g} s (--timeout) and was ended."
    except BaseException:
        _stop(process)
        raise
    return ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
