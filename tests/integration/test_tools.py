"""An agent beside a person: a client of the package `mcp`, and commands, in a session of a person's kernel."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio.from_thread
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from tests.integration.conftest import START
from tests.integration.kernels import Kernels
from tests.integration.notebook import Notebook
from tests.waiting import WAIT_SECONDS

SPREAD = """import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
w = jax.device_put(np.arange(16.0).reshape(4, 4), NamedSharding(mesh, P("data", "model")))
"""
COUNT = """import time
for i in range({}):
    print('second', i, flush=True)
    time.sleep(0.5)
"""
Call = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def person(kernels: Kernels) -> Notebook:
    """The kernel that has started the session, which is not kept: as most are."""
    found = kernels.start()
    found.good(START)
    found.good(f"%%dist\n{SPREAD}")
    return found


@contextlib.asynccontextmanager
async def connected(kernels: Kernels, words: tuple[str, ...]) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "nbdist.cli", "mcp", *words],
        env={**os.environ, **kernels.environment},
    )
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as found:
        await found.initialize()
        yield found


@contextlib.contextmanager
def agent(kernels: Kernels, *words: str) -> Iterator[Call]:
    """A client that has started `nbdist mcp` with these options: calls a tool, and returns its answer."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(connected(kernels, words)) as client,
    ):

        def call(name: str, **arguments: Any) -> dict[str, Any]:
            found = portal.call(client.call_tool, name, arguments)
            answer: dict[str, Any] = found.structured_content
            assert json.loads(found.content[0].text) == answer  # for clients that read only texts
            assert found.is_error == (set(answer) == {"error"})
            return answer

        yield call


def followed(call: Call, cell: dict[str, Any]) -> dict[str, Any]:
    """The cell once it is over, asked for again and again."""
    while cell["state"] in ("queued", "running"):
        cell = call("follow_cell", cell=cell["cell"])
    return cell


def command(kernels: Kernels, *words: str, typed: str | None = None) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of a command."""
    ended = subprocess.run(
        [sys.executable, "-m", "nbdist.cli", *words, "--json"],
        env={**os.environ, **kernels.environment},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, found


def test_a_client_runs_a_cell_longer_than_a_call_follows_it_and_explains_a_sharding(
    kernels: Kernels, person: Notebook
) -> None:
    with agent(kernels, "--allow", "run", "--limit", "1") as call:
        status = call("status")
        assert [one["state"] for one in status["processes"]] == ["idle", "idle"]
        assert sum(one["count"] for one in status["devices"]) == 4
        assert (status["kernels"], status["kept"]) == ([person.process.pid], False)

        began = time.monotonic()
        first = call("run_cell", code=COUNT.format(8))
        assert time.monotonic() - began < 3.5
        assert first["state"] == "running" and "second 0" in first["output"]
        assert "second 7" not in first["output"]
        last = followed(call, first)
        assert (last["state"], last["error"]) == ("finished", None)
        assert re.findall(r"second (\d)", last["output"]) == list("01234567")

        (shown,) = call("shards", path="w")["arrays"]
        assert shown["array"]["mesh"] == {"data": 2, "model": 2}
        assert [(one["slices"], one["devices"]) for one in shown["pieces"]] == [
            ([[0, 2], [0, 2]], ["0:0"]),
            ([[0, 2], [2, 4]], ["0:1"]),
            ([[2, 4], [0, 2]], ["1:2048"]),
            ([[2, 4], [2, 4]], ["1:2049"]),
        ]
        program = call("explain", call="jax.jit(lambda x: x.sum())(w)")["program"]
        assert {one["kind"] for one in program["collectives"]} == {"all-reduce"}

        failed = call("run_cell", code="ok = 1\nok / 0", on="1")
        error = failed["error"]
        assert (failed["state"], error["code"], error["process"], error["line"]) == (
            "failed",
            "ProcessError",
            1,
            2,
        )
        assert error["cause"].startswith("ZeroDivisionError")

        endless = call("run_cell", code="import time\nwhile True: time.sleep(0.1)")
        assert endless["state"] == "running"
        call("interrupt_cell", cell=endless["cell"])
        assert followed(call, endless)["state"] == "interrupted"
    # What the agent left is the person's.
    person.shows("%%dist\nprint('ok', 'i', i)", "processes 0, 1   ok i 7")


def test_what_is_not_allowed_is_refused_with_its_flag_and_not_done(
    kernels: Kernels, person: Notebook
) -> None:
    with agent(kernels, "--limit", "1") as call:
        for name, arguments, flag in [
            ("run_cell", {"code": "trace = 1"}, "--allow run"),
            ("explain", {"call": "jax.jit(len)(w)"}, "--allow run"),
            ("interrupt_cell", {"cell": 1}, "--allow run"),
            ("recover", {}, "--allow recover"),
        ]:
            error = call(name, **arguments)["error"]
            assert error["code"] == "OptionError" and flag in error["message"]
        # Nor is a path evaluated where code is not allowed.
        assert "error" in call("shards", path="globals().update(trace=1) or w")
        (found,) = call("arrays", find="w")["arrays"]
        assert (found["path"], found["shape"], found["bytes_per_device"]) == ("w", [4, 4], 16)
        refused = call("stacks")["error"]
        assert refused["code"] == "SessionError" and "--keep" in refused["message"]
    person.shows("%%dist\nprint('trace' in globals())", "processes 0, 1   False")


def test_a_cell_waits_in_line_behind_a_persons_and_says_so(
    kernels: Kernels, person: Notebook
) -> None:
    with agent(kernels, "--allow", "run", "--limit", "1.5") as call:
        assert call("status")["state"] == "idle"
        request, _ = person.follow(
            "%%dist\nimport time\nprint('person', flush=True)\ntime.sleep(6)\nended = time.time()",
            "person",
        )
        first = call("run_cell", code="began = time.time()\nprint(began > ended)")
        assert (first["state"], first["processes"]) == ("queued", [])
        assert re.search(r"queued behind cell \d+ of another kernel", first["says"])
        assert call("status")["state"] == "running"
        last = followed(call, first)
    assert last["state"] == "finished" and "True" in last["output"]
    assert person.collect(request).error is None


def test_the_cell_of_a_client_that_vanishes_goes_on_and_is_found_again(
    kernels: Kernels, person: Notebook
) -> None:
    with agent(kernels, "--allow", "run", "--limit", "1") as call:
        cell = call("run_cell", code=COUNT.format(16), wait=False)
        assert cell["state"] == "running"
    code, found = command(kernels, "follow-cell", str(cell["cell"]))
    assert (code, found["state"]) == (0, "finished")
    assert "second 0" in found["output"] and "second 15" in found["output"]
    person.good("%%dist\nprint('in step')")


def test_commands_print_json_and_say_in_their_exit_code_how_it_went(
    kernels: Kernels, person: Notebook, tmp_path: Path
) -> None:
    code, found = command(kernels, "run-cell", "-", "--on", "0", typed="print(6 * 7)")
    assert (code, found["state"]) == (0, "finished")
    assert "42" in found["output"] and [one["process"] for one in found["processes"]] == [0]
    code, found = command(kernels, "run-cell", "print('x' * 10_000_000); 1 / 0")
    assert (code, found["state"]) == (1, "failed")
    assert len(found["output"]) < 21_000 and found["characters_left_out"] > 0
    code, found = command(kernels, "status", "--session", "zzz")
    assert (code, found["error"]["code"]) == (1, "SessionError")
    other = kernels.start()
    other.good("%dist_init -n 1 --platform cpu --no-initialize --keep")
    code, found = command(kernels, "status")
    assert code == 1
    for listed in kernels.sessions():
        assert listed["id"] in found["error"]["message"]
    # Of a kept session any kernel reads the stacks.
    (kept,) = (one["id"] for one in kernels.sessions() if one["kept"])
    code, found = command(kernels, "stacks", "--session", kept)
    assert code == 0 and "process 0" in found["text"]
    other.good("%dist_shutdown")


def test_a_session_that_has_ended_or_begun_anew_is_noticed(
    kernels: Kernels, person: Notebook
) -> None:
    with agent(kernels, "--allow", "run", "--limit", "5") as call:
        call("run_cell", code="here = 1")
        person.good("%dist_init --restart")
        assert "False" in call("run_cell", code="print('here' in globals())")["output"]
        cell = call("run_cell", code=COUNT.format(100), wait=False)
        person.good("%dist_shutdown")
        assert call("follow_cell", cell=cell["cell"])["error"]["code"] == "SessionError"
        assert call("status")["error"]["code"] == "SessionError"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_waits_for_its_client(
    kernels: Kernels, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "nbdist.cli", "mcp"],
        env={**os.environ, **kernels.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(number)
        assert server.wait(WAIT_SECONDS) == 128 + number
