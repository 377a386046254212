"""All checks, beside each other: `python -m tests.checks`.

What each says is printed as a whole, in the order below. Where one has failed the exit code is 1, and the last
line names those that have.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests import frontend_tools
from tests.places import ROOT

BIN = Path(sys.executable).parent
PYTHON = (
    [str(BIN / "ruff"), "check"],
    [str(BIN / "ruff"), "format", "--check"],
    [str(BIN / "mypy")],
    [str(BIN / "lint-imports"), "--verbose"],
)


@dataclass(frozen=True)
class Check:
    """A command to run in a folder; `environment` is this process's where it is None."""

    command: list[str]
    folder: Path
    environment: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """As one would type it."""
        return " ".join([Path(self.command[0]).name, *self.command[1:]])


def run(checks: list[Check]) -> list[str]:
    """Runs all at once, prints what each says once all before it are printed; the names of those that failed."""
    failed = []
    with ExitStack() as until_all_have_ended:
        folder = Path(until_all_have_ended.enter_context(tempfile.TemporaryDirectory()))
        running = []
        for number, check in enumerate(checks):
            said = folder / str(number)
            process = _start(check, said)
            until_all_have_ended.callback(process.wait)
            until_all_have_ended.callback(process.terminate)
            running.append((check, process, said))
        for check, process, said in running:
            code = process.wait()
            text = said.read_text(encoding="utf-8", errors="replace").rstrip()
            print(f"{check.name}\n{text}", flush=True)
            if code != 0:
                print(f"{check.name} failed with exit code {code}", flush=True)
                failed.append(check.name)
    return failed


def _start(check: Check, said: Path) -> subprocess.Popen[bytes]:
    with said.open("wb") as output:
        return subprocess.Popen(
            check.command,
            cwd=check.folder,
            env=check.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def main() -> None:
    """Installs what is missing, then checks."""
    environment = frontend_tools.environment()
    frontend_tools.install(environment)
    front = frontend_tools.checks(environment)
    failed = run(
        [
            *(Check(command, ROOT) for command in PYTHON),
            *(Check(command, frontend_tools.FOLDER, environment) for command in front),
        ]
    )
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
