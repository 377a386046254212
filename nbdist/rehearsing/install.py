"""`nbdist rehearse --install`: libtpu in a folder of its own, whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from nbdist.errors import RehearsalError
from nbdist.rehearsal import libtpu


def install(say: Callable[[str], None] = print) -> int:
    """Puts the compiler that the installed JAX needs into its folder, with pip.

    Args:
      say: Called with what was done.

    Returns:
      0, or the exit code of pip, which has then said why; nothing is left of what it began.

    Raises:
      RehearsalError: pip is not there, or the folder cannot be made.
    """
    version = libtpu.wanted()
    folder = libtpu.folder(version)
    there = libtpu.in_folder(version)
    if there is not None:
        say(f"libtpu {there.version or version} is there already: {folder}")
        return 0
    if importlib.util.find_spec("pip") is None:
        raise RehearsalError(
            f"{sys.executable} has no pip. Install it (python -m ensurepip), or let another installer put "
            f"libtpu=={version} into {folder}: uv pip install --no-deps --target {folder} libtpu=={version}"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise RehearsalError(
            f"{folder.parent} cannot be made, where libtpu is to lie: {error.strerror}. Let XDG_CACHE_HOME name a "
            "folder that can be written to."
        ) from error
    try:
        code = subprocess.call(libtpu.install_command(version, partial), env=_without_user())
        if code == 0:
            # What is there is no library, else it had been found.
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if code == 0:
        found = libtpu.in_folder(version)
        if found is None:
            raise RehearsalError(f"pip has put no libtpu {version} into {folder}.")
        say(f"libtpu {found.version or version} is installed: {folder}")
    return code


def _without_user() -> dict[str, str]:
    """pip refuses a folder where its own configuration asks for the user's packages."""
    return {**os.environ, "PIP_USER": "0"}
