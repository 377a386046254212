"""The table of tools: what each needs is refused where it is not allowed, before a session is looked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import OptionError
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import ParentMark, Record
from nbdist.machine.processes import beginning
from nbdist.tools.doors import BY_COMMAND
from nbdist.tools.participant import EVERYTHING, Participant, allowed_by
from nbdist.tools.table import TOOLS, ask

CODE = """
import sys, nbdist.cli
print([name for name in ("mcp", "anyio", "ipyparallel", "IPython", "jax") if name in sys.modules])
"""


def message(answer: Any) -> str:
    """The text of a refusal."""
    text: str = answer.plain["error"]["message"]
    return text


def write_down(name: str, folder: Path) -> None:
    """A session of another version of nbdist, which runs as long as this process."""
    registry.write(
        Record(
            id=name,
            nbdist="0.0.1",
            python="3",
            created=1.0,
            kept=True,
            host="h1",
            machine=registry.this_machine(),
            cwd="/",
            folder=str(folder),
            connection="",
            framework="jax",
            hosts=("h1",),
            processes=2,
            parents=(
                ParentMark(name="", pid=os.getpid(), began=beginning(os.getpid()) or "", log=""),
            ),
        )
    )


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))


def test_each_command_is_the_tool_of_its_name() -> None:
    assert {tool.name for tool in BY_COMMAND.values()} == set(TOOLS)
    assert all(name == tool.name for name, tool in TOOLS.items())
    assert "run-cell" in BY_COMMAND


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
@pytest.mark.parametrize("words", [(), ("run",), ("recover",), ("run", "recover")])
def test_a_tool_is_refused_with_its_flag_unless_that_is_allowed(tool: Any, words: Any) -> None:
    answer = ask(Participant(allowed=allowed_by(words)), tool.name, {})
    allowed = tool.needs in ("read", *words)
    assert answer.refused
    assert (f"--allow {tool.needs}" in message(answer)) == (not allowed)


def test_only_what_exists_can_be_allowed() -> None:
    assert allowed_by([]) == {"read"}
    assert allowed_by(["recover", "run"]) == EVERYTHING
    with pytest.raises(OptionError, match="walk"):
        allowed_by(["run", "walk"])


def test_an_unknown_tool_is_refused_with_those_that_exist() -> None:
    said = message(ask(Participant(), "run-cell", {}))
    assert "'run-cell'" in said and "run_cell" in said


def test_without_a_session_or_with_several_the_refusal_says_what_runs(tmp_path: Path) -> None:
    assert ask(Participant(), "status", {}).plain["error"]["code"] == "SessionError"
    write_down("aaaa1111", tmp_path)
    # The only one is the one that is meant.
    assert ask(Participant(), "status", {}).plain["error"]["code"] == "VersionError"
    write_down("bbbb2222", tmp_path)
    said = message(ask(Participant(), "status", {}))
    assert "aaaa1111" in said and "bbbb2222" in said
    # One that is meant for a single session joins no other.
    said = message(ask(Participant(session="aaaa"), "status", {"session": "bbbb"}))
    assert "aaaa1111" in said and "'bbbb'" in said


def test_the_command_imports_neither_the_package_of_the_protocol_nor_a_session() -> None:
    found = subprocess.check_output([sys.executable, "-c", CODE], text=True).strip()
    assert found == "[]"


def test_the_server_without_its_package_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; from nbdist import cli; sys.exit(cli.main(['mcp']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "pip install 'nbdist[mcp]'" in ended.stderr
