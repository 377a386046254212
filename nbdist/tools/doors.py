"""The two doors to the tools: commands, and a server of the Model Context Protocol.

`nbdist status --json` calls the tool `status`; `nbdist mcp` serves all over standard input and output. The package
`mcp` is imported only for that.

Source: https://modelcontextprotocol.io/specification; the server of the package `mcp` speaks it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from nbdist.errors import OptionError
from nbdist.tools.arguments import add_to, parameters, schema
from nbdist.tools.participant import Participant, allowed_by
from nbdist.tools.table import TOOLS, Tool, ask
from nbdist.version import __version__

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server

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
    try:
        if options.limit <= 0:
            raise OptionError(f"--limit {options.limit:g}: allowed are seconds above 0.")
        allowed = allowed_by(filter(None, options.allow.split(",")))
        _serve(Participant(session=options.session, allowed=allowed, longest_s=options.limit))
    except OptionError as error:
        print(f"nbdist mcp: {error}", file=sys.stderr)
        return 2
    return 0


INSTRUCTIONS = (
    "nbdist runs notebook cells on every process of a multi-host JAX, Keras or TensorFlow job. You take part in a "
    "person's session, beside their notebook: you share its variables, and your cells wait in line behind theirs. "
    "Begin with status. Every process runs all of a cell; code that uses global arrays must run on all processes. "
    "A cell that has not ended goes on; follow_cell returns its output so far."
)


def _serve(participant: Participant) -> None:
    """Serve the tools until the client closes standard input; leave all sessions then.

    A SIGINT or SIGTERM leaves them too, and ends this process with 128 and the number of the signal.

    Raises:
      OptionError: The package `mcp` is not installed.
    """
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError as error:
        raise OptionError(
            f"an agent is served with the package mcp, which cannot be imported ({error}). "
            "Run: pip install 'nbdist[mcp]'"
        ) from error

    async def end_by_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                participant.leave()
                # The thread that reads standard input can be neither interrupted nor joined before a line comes.
                os._exit(128 + number)

    async def until_end() -> None:
        server = server_of(participant)
        async with anyio.create_task_group() as ending, stdio_server() as (reading, writing):
            ending.start_soon(end_by_signal)
            await server.run(reading, writing, server.create_initialization_options())
            ending.cancel_scope.cancel()

    try:
        anyio.run(until_end)
    finally:
        participant.leave()


def server_of(participant: Participant) -> Server[Any]:
    """Return a server whose tools are those of the table."""
    from anyio import to_thread
    from mcp import types
    from mcp.server import Server

    async def list_tools(context: Any, asked: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[described(tool, participant) for tool in TOOLS.values()]
        )

    async def call_tool(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        # A client that no longer waits, or goes, ends this call and not the cell.
        answer = await to_thread.run_sync(
            functools.partial(ask, participant, asked.name, asked.arguments or {}),
            abandon_on_cancel=True,
        )
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(answer.plain))],
            structured_content=answer.plain,
            is_error=answer.refused,
        )

    return Server(
        "nbdist",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def described(tool: Tool, participant: Participant) -> types.Tool:
    """Return a tool as the protocol lists it; a tool that is not allowed says so."""
    from mcp import types

    missing = tool.needs not in participant.allowed
    note = f" Not allowed here: it needs nbdist mcp --allow {tool.needs}." if missing else ""
    return types.Tool(
        name=tool.name,
        description=tool.does + note,
        input_schema=schema(tool.arguments),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.needs == "read",
            destructive_hint=tool.needs != "read",
            open_world_hint=False,
        ),
    )
