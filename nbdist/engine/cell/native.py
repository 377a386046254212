"""Stacks of this process down into C and C++, as py-spy reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbdist.contract.questions import NativeStacks

LIMIT_SECONDS = 20.0
"""Longest run of py-spy, which stops this process meanwhile."""


def native_stacks() -> NativeStacks:
    """Return the stacks of all threads of this process with native frames; call on a thread of its own."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("py-spy", path=places)
    if program is None:
        return NativeStacks(
            error="py-spy is not installed; run pip install py-spy in the processes' environment"
        )
    command = [program, "dump", "--native", "--pid", str(os.getpid())]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return NativeStacks(error=f"py-spy did not end within {LIMIT_SECONDS:.0f} s")
    if done.returncode != 0 or not done.stdout.strip():
        said = (
            done.stderr.strip() or f"py-spy ended with exit code {done.returncode}"
        ).splitlines()
        return NativeStacks(
            error=f"{said[-1]} (py-spy needs the right to trace this process: ptrace)"
        )
    return NativeStacks(text=done.stdout.strip())
