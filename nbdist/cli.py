"""The command `nbdist`.

`nbdist demo` runs the tour, in JupyterLab where somebody can look, else in this terminal; `nbdist doctor`
checks hosts before a start; `nbdist ls` lists the sessions that run, `nbdist stop` stops one; `nbdist rehearse`
compiles what a script does for a pod that is not there. `nbdist mcp` serves the tools of `nbdist.tools` to an
agent, and each tool is a command too.
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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist import rehearsal
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError, OptionError, SessionError
from nbdist.launch.doctor import doctor
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from nbdist.magics.options import DOCTOR, REHEARSE, doctor_arguments
from nbdist.notation import columns, count_text, seconds_text
from nbdist.spelling import Door, through
from nbdist.tools import doors as tools

TOUR = "01_tour.ipynb"
MAY_FAIL = "raises-exception"
"""The cell tag by which notebook tools know that a cell fails on purpose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `nbdist`; return its exit code."""
    parser = argparse.ArgumentParser(prog="nbdist", description=__doc__)
    add_commands(parser.add_subparsers(dest="command", required=True))
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Words after `--` are for the script, even if they look like options.
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    if end < len(words) and options.command != "rehearse":
        parser.error(f"nbdist {options.command} takes nothing after --")
    with through(Door.MAGIC):
        if options.command == "rehearse":
            return rehearse(options, words[end + 1 :])
        return COMMANDS[options.command](options)


def add_commands(commands: Any) -> None:
    """Add the commands and their options to argparse's subparsers."""
    demo = commands.add_parser("demo", help="run the tour")
    demo.add_argument("--notebook", type=Path, default=None, help="another notebook than the tour")
    demo.add_argument("--terminal", action="store_true", help="here, also where there is a display")
    examined = commands.add_parser("doctor", help="check hosts before a start", allow_abbrev=False)
    for add in DOCTOR:
        add(examined)
    listed = commands.add_parser("ls", help="list the sessions that run", allow_abbrev=False)
    listed.add_argument("--json", action="store_true", help="for scripts")
    stopped = commands.add_parser("stop", help="stop a session", allow_abbrev=False)
    stopped.add_argument("sessions", nargs="*", metavar="ID", help="as nbdist ls has it; or last")
    stopped.add_argument("--all", action="store_true", help="all that run on this machine")
    stopped.add_argument(
        "--forget",
        action="store_true",
        help="only off the list, where its machine is gone for good",
    )
    rehearsed = commands.add_parser(
        "rehearse",
        help="compile what a script does for a pod that is not there",
        allow_abbrev=False,
    )
    for add in REHEARSE:
        add(rehearsed)
    tools.add_commands(commands)


def demo(options: argparse.Namespace) -> int:
    """Run `nbdist demo`; return the exit code of JupyterLab, or of the cells in this terminal."""
    notebook = options.notebook or find_tour()
    if options.terminal or not can_show(os.environ, terminal=sys.stdin.isatty()):
        return in_terminal(notebook)
    return in_lab(notebook)


def examine(options: argparse.Namespace) -> int:
    """Run `nbdist doctor`: print what is wrong with the hosts, where, and what to type.

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


HEADINGS = ("ID", "hosts", "processes", "framework", "age", "kernel", "kept")


def ls(options: argparse.Namespace) -> int:
    """Run `nbdist ls`; return the exit code, 0."""
    there = registry.sessions()
    if options.json:
        print(json.dumps([as_json(one) for one in there], indent=2))
    elif there:
        print("\n".join(columns([HEADINGS, *(row(one, now=time.time()) for one in there)])))
    else:
        print("No session runs. %dist_init starts one.")
    return 0


def stop(options: argparse.Namespace) -> int:
    """Run `nbdist stop`.

    Returns:
      0 when all named sessions are stopped; 1 when one does not exist; 2 when none is named.
    """
    if options.all == bool(options.sessions) or (options.all and options.forget):
        print("nbdist stop: name sessions by their ID, or --all.", file=sys.stderr)
        return 2
    code = 0
    words = options.sessions or [one.id for one in registry.sessions() if one.here]
    for word in words:
        try:
            record = registry.find(word)
            if options.forget:
                registry.forget(record)
            else:
                registry.stop(record)
        except SessionError as error:
            print(f"nbdist stop: {error}", file=sys.stderr)
            code = 1
        else:
            what = (
                "forgotten"
                if options.forget
                else f"{count_text(record.processes, 'process')} stopped"
            )
            print(f"session {record.id}: {what}")
    if not words:
        print("No session runs.")
    return code


def row(record: Record, *, now: float) -> tuple[str, ...]:
    """Return one line of the table."""
    kernels = ", ".join(str(kernel.pid) for kernel in record.attached) or "none"
    return (
        record.id,
        ", ".join(record.hosts),
        str(record.processes),
        record.framework,
        seconds_text(now - record.created),
        kernels if record.here else f"on {record.host}",
        "yes" if record.kept else "no",
    )


def as_json(record: Record) -> dict[str, Any]:
    """Return a session for scripts: the table's fields, and the paths of its folder and connection file."""
    return {
        "id": record.id,
        "host": record.host,
        "hosts": list(record.hosts),
        "processes": record.processes,
        "framework": record.framework,
        "created": record.created,
        "kept": record.kept,
        "kernels": [kernel.pid for kernel in record.attached],
        "folder": record.folder,
        "connection": record.connection,
        "cwd": record.cwd,
        "nbdist": record.nbdist,
    }


def rehearse(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run `nbdist rehearse`: a script on a pod that is not there.

    Returns:
      0 if all programs fit, 1 if one does not, 2 if the script could not be run to its end; with several meshes
      the highest of these; 130 if interrupted.
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
            # The script's output must not become part of the JSON.
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
    """Return the tour's notebook, in the checkout this package was installed from.

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
    """Return whether a browser can be opened: there must be a terminal and a display."""
    if sys.platform in ("darwin", "win32"):
        return terminal
    return terminal and any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def in_lab(notebook: Path) -> int:
    """Open JupyterLab on a copy of the notebook, so that the original stays as it is.

    Returns:
      JupyterLab's exit code; 1 if JupyterLab is not installed.
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
            # JupyterLab starts for root only with this option; here root has asked for it.
            options.append("--ServerApp.allow_root=True")
        command = [sys.executable, "-m", "jupyterlab", *options, str(copy)]
        server = subprocess.Popen(command, cwd=folder)
        while True:
            try:
                return server.wait()
            except KeyboardInterrupt:
                # JupyterLab has received the signal too, and asks whether to stop.
                continue


def in_terminal(notebook: Path) -> int:
    """Run the notebook's cells in this terminal, with everything shown as text.

    Returns:
      0 if every cell did what it should, 1 at the first that did not.
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
    """One cell of a notebook: text or code, and whether the code is meant to fail."""

    source: str
    code: bool
    may_fail: bool


def cells(notebook: Mapping[str, Any]) -> Iterator[NotebookCell]:
    """Yield the cells of a notebook, in order."""
    for cell in notebook["cells"]:
        source = cell["source"]
        yield NotebookCell(
            source=source if isinstance(source, str) else "".join(source),
            code=cell["cell_type"] == "code",
            may_fail=MAY_FAIL in cell.get("metadata", {}).get("tags", []),
        )


def prose(markdown: str) -> str:
    """Return Markdown for a terminal: a line under each heading, the rest as it is written."""
    lines: list[str] = []
    for line in markdown.splitlines():
        title = line.lstrip("#").strip()
        lines += [title, "─" * len(title)] if line.startswith("#") else [line]
    return "\n".join(lines)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "demo": demo,
    "doctor": examine,
    "ls": ls,
    "stop": stop,
    "mcp": tools.serve,
    **dict.fromkeys(tools.BY_COMMAND, tools.call),
}
"""Functions that run the commands; `rehearse` takes the arguments of its script as well."""


if __name__ == "__main__":
    sys.exit(main())
