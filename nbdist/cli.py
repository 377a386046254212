"""The command `nbdist`.

`nbdist demo` runs the tour, in JupyterLab where somebody can look, else in this terminal; `nbdist doctor`
checks hosts before a start; `nbdist ls` lists the sessions that run, `nbdist stop` stops one; `nbdist rehearse`
compiles what a script does for a pod that is not there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist import listing, rehearsal
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError, OptionError
from nbdist.launch.doctor import doctor
from nbdist.magics.options import doctor_arguments, doctor_options, rehearse_options
from nbdist.spelling import Door, through

TOUR = "01_tour.ipynb"
MAY_FAIL = "raises-exception"
"""The cell tag by which notebook tools know that a cell fails on purpose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command `nbdist`.

    Returns:
      The exit code.
    """
    parser = argparse.ArgumentParser(prog="nbdist", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="run the tour")
    demo.add_argument("--notebook", type=Path, default=None, help="another notebook than the tour")
    demo.add_argument("--terminal", action="store_true", help="here, also where there is a display")
    doctor_options(
        commands.add_parser("doctor", help="check hosts before a start", allow_abbrev=False)
    )
    listing.add_commands(commands)
    rehearse_options(
        commands.add_parser(
            "rehearse",
            help="compile what a script does for a pod that is not there",
            allow_abbrev=False,
        )
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    # What follows `--` is for a script, also where it looks like an option.
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    if end < len(words) and options.command != "rehearse":
        parser.error(f"nbdist {options.command} takes nothing after --")
    with through(Door.MAGIC):
        return run(options, words[end + 1 :])


def run(options: argparse.Namespace, rest: Sequence[str] = ()) -> int:
    """Does what a command line says.

    Args:
      options: The command and its options.
      rest: What follows `--`.

    Returns:
      The exit code.
    """
    if options.command == "doctor":
        return examine(options)
    if options.command == "rehearse":
        return rehearse(options, rest)
    if options.command in listing.COMMANDS:
        return listing.COMMANDS[options.command](options)
    notebook = options.notebook or find_tour()
    if options.terminal or not can_show(os.environ, terminal=sys.stdin.isatty()):
        return in_terminal(notebook)
    return in_lab(notebook)


def examine(options: argparse.Namespace) -> int:
    """`nbdist doctor`: prints what is wrong with the hosts, where, and what to type.

    Returns:
      0 when a start would succeed, 1 when it would not, 2 for options that cannot be read; 130 when interrupted.
    """
    try:
        report = doctor(**doctor_arguments(options))
    except OptionError as error:
        print(f"nbdist doctor: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(report.json() if options.json else report.text())
    return report.exit_code


def rehearse(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """`nbdist rehearse`: runs a script on a pod that is not there.

    Args:
      options: Of the command.
      arguments: Of the script.

    Returns:
      0 when all its programs fit, 1 when one does not, 2 when it could not be run to its end; with several meshes
      the highest of these; 130 when interrupted.
    """
    try:
        if options.install:
            return rehearsal.install()
        if options.script is None or options.topology is None:
            raise OptionError(
                "a script and --topology are needed, such as train.py --topology v5e:4x4."
            )
        comparison = rehearsal.rehearse_script(
            options.script,
            arguments,
            topology=options.topology,
            meshes=options.mesh,
            slices=options.slices,
            value=options.value,
            timeout_s=options.timeout,
            # What the script prints is not part of the JSON.
            output=sys.stderr.fileno() if options.json else None,
        )
    except NbdistError as error:
        print(f"nbdist rehearse: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        if str(error):
            print(f"nbdist rehearse: {error}", file=sys.stderr)
        return 130
    (first, *others), code = comparison.rehearsed, comparison.exit_code
    if not others and first.failure:
        print(f"nbdist rehearse: {first.failure}", file=sys.stderr)
    if options.json:
        programs = {"programs": [encode(program) for program in first.programs]}
        plain = comparison.plain() if others else programs
        print(json.dumps({"exit_code": code, **plain}, indent=2))
    elif others:
        details = f"{comparison.details()}\n\n" if options.programs else ""
        print(f"{details}{comparison.text()}")
    return code


def find_tour() -> Path:
    """The tour's notebook, in the checkout this package was installed from.

    Raises:
      SystemExit: It is not there, as in an installation without the notebooks.
    """
    path = Path(__file__).parent.parent / "notebooks" / TOUR
    if not path.exists():
        raise SystemExit(
            f"nbdist demo: {path} is not there; run it from a clone of the repository."
        )
    return path


def can_show(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether a browser can be opened for somebody: a terminal, and a display."""
    if sys.platform in ("darwin", "win32"):
        return terminal
    return terminal and any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def in_lab(notebook: Path) -> int:
    """Opens JupyterLab on a copy of the notebook, so that the original stays as it is.

    Returns:
      JupyterLab's exit code; 1 where it is not installed.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        print(
            "nbdist demo: JupyterLab is not installed. Run pip install 'nbdist[lab,tour]', "
            "or nbdist demo --terminal.",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="nbdist-demo-") as folder:
        copy = shutil.copy(notebook, folder)
        print("This is a copy of the tour; changes are gone when JupyterLab ends.", flush=True)
        options = ["--ServerApp.ip=127.0.0.1"]
        if sys.platform != "win32" and os.geteuid() == 0:
            # JupyterLab refuses to start for root, who has asked for just that.
            options.append("--ServerApp.allow_root=True")
        command = [sys.executable, "-m", "jupyterlab", *options, str(copy)]
        server = subprocess.Popen(command, cwd=folder)
        while True:
            try:
                return server.wait()
            except KeyboardInterrupt:
                # JupyterLab has got the signal, too, and asks whether to end.
                continue


def in_terminal(notebook: Path) -> int:
    """Runs the notebook's cells in this terminal, with everything shown as text.

    Returns:
      0 when every cell did what it should, 1 at the first that did not.
    """
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    from traitlets.config import Config

    from nbdist.magics.commands import end

    os.environ.setdefault("MPLBACKEND", "agg")
    config = Config()
    config.HistoryManager.enabled = False
    config.TerminalInteractiveShell.colors = "linux" if sys.stdout.isatty() else "nocolor"
    shell = TerminalInteractiveShell.instance(config=config)
    try:
        for cell in cells(json.loads(notebook.read_text(encoding="utf-8"))):
            if not cell.code:
                print(f"\n{prose(cell.source)}", flush=True)
                continue
            print("\n" + "\n".join(f"  │ {line}" for line in cell.source.splitlines()), flush=True)
            if shell.run_cell(cell.source, store_history=True).success == cell.may_fail:
                print("This cell should have failed." if cell.may_fail else "The tour ends here.")
                return 1
    finally:
        end(shell)
    return 0


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """One cell of a notebook: text, or code, and whether that is meant to fail."""

    source: str
    code: bool
    may_fail: bool


def cells(notebook: Mapping[str, Any]) -> Iterator[NotebookCell]:
    """The cells of a notebook, in order."""
    for cell in notebook["cells"]:
        source = cell["source"]
        yield NotebookCell(
            source=source if isinstance(source, str) else "".join(source),
            code=cell["cell_type"] == "code",
            may_fail=MAY_FAIL in cell.get("metadata", {}).get("tags", []),
        )


def prose(markdown: str) -> str:
    """Markdown for a terminal: a line under each heading, the rest as it is written."""
    lines: list[str] = []
    for line in markdown.splitlines():
        title = line.lstrip("#").strip()
        lines += [title, "─" * len(title)] if line.startswith("#") else [line]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
