"""The commands `nbdist ls` and `nbdist stop`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.errors import SessionError
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from nbdist.notation import count_text, seconds_text
from nbdist.spelling import command

HEADINGS = ("ID", "hosts", "processes", "framework", "age", "kernel", "kept")


def add_commands(commands: Any) -> None:
    """Add both commands to argparse's subparsers."""
    ls = commands.add_parser("ls", help="list the sessions that run", allow_abbrev=False)
    ls.add_argument("--json", action="store_true", help="for scripts")
    stop = commands.add_parser("stop", help="stop a session", allow_abbrev=False)
    stop.add_argument("sessions", nargs="*", metavar="ID", help="as nbdist ls has it; or last")
    stop.add_argument("--all", action="store_true", help="all that run on this machine")
    stop.add_argument(
        "--forget",
        action="store_true",
        help="only off the list, where its machine is gone for good",
    )


def ls(options: argparse.Namespace) -> int:
    """Run `nbdist ls`.

    Returns:
      The exit code, 0.
    """
    there = registry.sessions()
    if options.json:
        print(json.dumps([as_json(one) for one in there], indent=2))
    elif there:
        print("\n".join(table([row(one, now=time.time()) for one in there])))
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


def no_session() -> str:
    """Return the text of a kernel without a session: how to come back to one that is kept, or to start one."""
    try:
        kept = [one for one in registry.sessions() if one.kept and one.here]
    except (OSError, SessionError):
        kept = []
    if not kept:
        return f"No session is running. {command('start')} starts one."
    newest = kept[-1].id
    more = f", and {len(kept) - 1} more: nbdist ls lists them" if len(kept) > 1 else ""
    return (
        f"No session is running in this kernel. Session {newest} is kept{more}. {command('attach', newest)} goes "
        f"back to it, {command('start')} starts another."
    )


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"ls": ls, "stop": stop}


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


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows below their headings, in columns."""
    cells = [HEADINGS, *rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


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
