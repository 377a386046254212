"""Scripts on a pod that is not there, for `nbdist rehearse`: a process for each mesh."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from nbdist.errors import NbdistError, OptionError, RehearsalError
from nbdist.rehearsal.comparison import Comparison
from nbdist.rehearsal.mesh import AskedPod, read_each
from nbdist.rehearsal.runs import (
    GRACE_S,
    LAST,
    Run,
    SideBySideDisplay,
    end_of,
    how_it_ended,
    lacks_memory,
    side_by_side,
    variables,
)

SAID_ITSELF = 2
"""Exit code of a script's process that has said why the script did not come to its end."""


class ScriptRun(Run):
    """A script in a process whose devices are those of a pod that is not there.

    Args:
      script: A Python file; it finds the mesh under the name `mesh`.
      arguments: The script's arguments.
      pod: The rehearsal's pod.
      value: The number that stands in for values; None for none.
      alone: Whether its output and its programs are shown as they come; else the output is kept.
      output: The file descriptor for the standard output of one that is alone; None for that of this process.
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
        """Files for its standard output and standard error; none where these are shown as they come."""
        if not alone:
            self._kept = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        output, errors = self._kept or (self._output, None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.rehearsal.process", *self._arguments],
            env=variables(),
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
        """Interrupt the script, and kill it where it has not ended after `GRACE_S`."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._step(GRACE_S)
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End the script at once, and remove what it was given."""
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
    """Run a script on each of several meshes, side by side; on one, what it prints is shown as it comes.

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
    variables()
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
