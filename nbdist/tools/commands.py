"""The tools as commands: `nbdist status --json` calls the tool `status`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from typing import Any

from nbdist.errors import OptionError
from nbdist.tools.arguments import add_to, parameters
from nbdist.tools.participant import Participant, allowed_by
from nbdist.tools.table import TOOLS, Tool, ask

LIMIT_SECONDS = 30.0
"""How long a call of the server waits for a cell: clients give up after 60 seconds, some earlier."""

BY_COMMAND = {tool.command: tool for tool in TOOLS.values()}


def add_commands(commands: Any) -> None:
    """Add a command for each tool, and the server, to argparse's subparsers."""
    for tool in TOOLS.values():
        does = _typed(tool.does)
        first = does.partition(".")[0]
        parser = commands.add_parser(
            tool.command, help=first[0].lower() + first[1:], description=does, allow_abbrev=False
        )
        add_to(parser, tool.arguments)
        parser.add_argument(
            "--json", action="store_true", help="Print JSON, for scripts and agents."
        )
    server = commands.add_parser(
        "mcp",
        help="serve the tools to an agent, over standard input and output",
        allow_abbrev=False,
    )
    server.add_argument(
        "--session", default="", metavar="ID", help="Only this session; default: any of yours here."
    )
    server.add_argument(
        "--allow",
        default="",
        metavar="WHAT",
        help="What tools may do beside reading: run, recover, or both, as run,recover.",
    )
    server.add_argument(
        "--limit",
        type=float,
        default=LIMIT_SECONDS,
        metavar="S",
        help=f"How long one call waits for a cell, in seconds; default: {LIMIT_SECONDS:g}.",
    )


def _typed(text: str) -> str:
    """Return a text about tools for a person, who types their commands."""
    for tool in TOOLS.values():
        text = text.replace(tool.name, tool.command)
    return text


def call(options: argparse.Namespace) -> int:
    """Run the command of a tool.

    Returns:
      0 when it was done, 1 when it was not or the cell failed; 130 when interrupted.
    """
    tool = BY_COMMAND[options.command]
    participant = Participant(say=lambda text: print(text, file=sys.stderr))
    try:
        # What sessions print for a notebook, such as output of a cell that goes on, is in the answer.
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
            try:
                answer = ask(participant, tool.name, _given(tool, options))
            finally:
                participant.leave()
    except KeyboardInterrupt:
        return 130
    print(json.dumps(answer.plain, indent=2) if options.json else answer.text)
    return 1 if answer.failed else 0


def _given(tool: Tool, options: argparse.Namespace) -> dict[str, Any]:
    found = {one.name: getattr(options, one.name) for one in parameters(tool.arguments)}
    if found.get("code") == "-":
        found["code"] = sys.stdin.read()
    return {name: value for name, value in found.items() if value is not None}


def serve(options: argparse.Namespace) -> int:
    """Run `nbdist mcp` until its client goes.

    Returns:
      0 when the client has gone, 2 for options that cannot be read or a missing package.
    """
    from nbdist.tools.server import serve

    try:
        if options.limit <= 0:
            raise OptionError(f"--limit {options.limit:g}: allowed are seconds above 0.")
        allowed = allowed_by(filter(None, options.allow.split(",")))
        serve(Participant(session=options.session, allowed=allowed, longest_s=options.limit))
    except OptionError as error:
        print(f"nbdist mcp: {error}", file=sys.stderr)
        return 2
    return 0
