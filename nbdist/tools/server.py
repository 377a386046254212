"""The tools as a server of the Model Context Protocol, over standard input and output.

Source: https://modelcontextprotocol.io/specification; the server of the package `mcp` speaks it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from nbdist.errors import OptionError
from nbdist.tools.arguments import schema
from nbdist.tools.participant import Participant
from nbdist.tools.table import TOOLS, Tool, ask
from nbdist.version import __version__

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server

INSTRUCTIONS = (
    "nbdist runs notebook cells on every process of a multi-host JAX, Keras or TensorFlow job. You take part in a "
    "person's session, beside their notebook: you share its variables, and your cells wait in line behind theirs. "
    "Begin with status. Every process runs all of a cell; code that uses global arrays must run on all processes. "
    "A cell that has not ended goes on; follow_cell returns its output so far."
)


def serve(participant: Participant) -> None:
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
