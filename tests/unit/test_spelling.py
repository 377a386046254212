"""What texts say is to be typed: flags and magics for who types a magic, parameters and methods in Python."""

from __future__ import annotations

import ast
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nbdist
from nbdist.contract.asides import Threads, ThreadStack
from nbdist.engine.frameworks.interfaces import NoArrays
from nbdist.engine.kernel.calls import SentCall
from nbdist.errors import OptionError
from nbdist.launch.model.start_options import FLAGS, StartOptions
from nbdist.magics.options import MAGICS
from nbdist.session.cells.facts import RECOVER, ProcessFacts
from nbdist.session.cells.failure import timeout_error
from nbdist.session.keeping import kept_text
from nbdist.session.looking import stacks_text
from nbdist.session.session import Session
from nbdist.spelling import (
    COMMANDS,
    Door,
    Placeholder,
    command,
    door_sent,
    flag,
    option,
    start_with,
    through,
)
from nbdist.spelling import FLAGS as EXCEPTIONS
from nbdist.starting import start_session

PACKAGE = Path(nbdist.__file__).parent

OF_MAGICS = (
    "magics/",
    "cli.py",
    "starting.py",
    "spelling.py",
    "rehearsal/cells.py",
    "rehearsal/runs.py",
    "tools/",
)
"""What only magics and commands reach, and speaks their language. `starting.py`: `kept_here`, for `%dist_init`."""

OF_PLAN = ("rehearsal/",)
"""Where texts name the options of `nbdist.plan` and `%dist_plan`, which have the same names."""

OF_SESSION = {
    name
    for method in (Session.run, Session.push, Session.pull, Session.recover)
    for name in inspect.signature(method).parameters
}


@pytest.mark.parametrize(
    ("name", "value", "typed", "in_python"),
    [
        ("start_timeout_s", 60.0, "--start-timeout 60", "start_timeout_s=60"),
        ("processes", 4, "-n 4", "processes=4"),
        ("hosts", "h1:2,h2", "--hosts h1:2,h2", "hosts='h1:2,h2'"),
        ("recover", False, "--no-recover", "recover=False"),
        ("slurm", True, "--slurm", "slurm=True"),
        ("tpu", "here", "--tpu", "tpu='here'"),
        ("tpu", "my-tpu", "--tpu my-tpu", "tpu='my-tpu'"),
        ("ssh_config", Placeholder("FILE"), "--ssh-config FILE", "ssh_config=FILE"),
        ("ssh_config", "my hosts", "--ssh-config 'my hosts'", "ssh_config='my hosts'"),
        ("ssh_config", Placeholder("A FILE"), "--ssh-config A FILE", "ssh_config=A FILE"),
        (
            "environment",
            {"A": "1 2", "B": ""},
            "--env 'A=1 2' --env B=",
            "environment={'A': '1 2', 'B': ''}",
        ),
        (
            "slurm_options",
            ["--mem=4G", "--exclusive"],
            "--slurm-option --mem=4G --slurm-option --exclusive",
            "slurm_options=['--mem=4G', '--exclusive']",
        ),
    ],
)
def test_an_option_is_written_as_the_person_who_reads_it_types_it(
    name: str, value: Any, typed: str, in_python: str
) -> None:
    assert option(name, value) == typed
    with through(Door.PYTHON):
        assert option(name, value) == in_python
        assert option(name) == name
    assert option(name, value) == typed
    assert option(name) == flag(name)


@pytest.mark.parametrize("name", FLAGS)
def test_the_flag_in_texts_is_one_that_dist_init_takes(name: str) -> None:
    assert flag(name) in FLAGS[name].names


def named() -> Iterator[tuple[str, str]]:
    """Where a text names an option, and which."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "option":
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    place = path.relative_to(PACKAGE).as_posix()
                    yield f"{place}:{node.lineno}", name.value


def test_texts_name_only_options_there_are() -> None:
    found = dict(named())
    assert len(found) > 100
    of_plan = {name for where, name in found.items() if where.startswith(OF_PLAN)}
    others = {name for where, name in found.items() if not where.startswith(OF_PLAN)}
    assert {name for name in others if name not in FLAGS} <= OF_SESSION
    assert of_plan
    assert of_plan <= inspect.signature(nbdist.plan).parameters.keys()
    assert EXCEPTIONS.keys() <= FLAGS.keys() | OF_SESSION


@pytest.mark.parametrize("name", sorted({name for _, name in named()} - FLAGS.keys()))
def test_the_flag_of_a_method_is_one_that_its_magic_takes(name: str) -> None:
    magics = ("dist", "dist_push", "dist_pull", "dist_plan", "dist_recover")
    assert flag(name) in {flag for magic in magics for flag in MAGICS[magic].parser().flags}


@pytest.mark.parametrize(
    ("options", "typed", "in_python"),
    [
        ({"min_hosts": 2}, "--min-hosts 2: for hosts only", "min_hosts=2: for hosts only"),
        ({"grace_s": -1.0}, "--grace -1: must be", "grace_s=-1: must be"),
        (
            {"start_method": "thread"},
            "--start-method thread: known",
            "start_method='thread': known",
        ),
        (
            {"slurm": True, "mpi": True},
            "--slurm and --mpi both start",
            "slurm=True and mpi=True both start",
        ),
        (
            {"evaluators": 1},
            "Use --framework tensorflow",
            "Use framework='tensorflow'",
        ),
        ({"hosts": "h1,h1"}, "--hosts: h1 is named 2 times", "hosts: h1 is named 2 times"),
    ],
)
def test_an_error_speaks_the_language_of_the_door_it_is_met_at(
    options: dict[str, Any], typed: str, in_python: str
) -> None:
    with pytest.raises(OptionError) as magic:
        start_session(StartOptions(**options))
    assert typed in str(magic.value)
    with pytest.raises(OptionError) as python:
        nbdist.start(**options)  # also where a magic calls it
    assert in_python in str(python.value)
    assert typed not in str(python.value)


def test_a_start_is_written_as_it_is_typed() -> None:
    assert start_with("keep", True) == "%dist_init --keep"
    with through(Door.PYTHON):
        assert start_with("keep", True) == "nbdist.start(keep=True)"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_a_magic_there_is_or_a_call_there_is(name: str) -> None:
    typed, called = COMMANDS[name]
    magic, *words = typed.split()
    assert magic.strip("%") in MAGICS
    assert {word for word in words if word.startswith("-")} <= set(
        MAGICS[magic.strip("%")].parser().flags
    )
    for holder, there in (("session", Session), ("nbdist", nbdist)):
        for method, given in re.findall(rf"{holder}\.(\w+)(?:\(([^)]*)\))?", called):
            known = inspect.signature(getattr(there, method)).parameters
            assert set(re.findall(r"(\w+)=", given)) <= known.keys()


THREADS = {
    0: Threads(
        threads=(ThreadStack(name="main", lines=("a",)), ThreadStack(name="other", lines=("b",)))
    )
}
OUT = ProcessFacts(workers=frozenset((0, 1)), advice=RECOVER, since=3)

MESSAGES: list[tuple[Callable[[], object], str, str]] = [
    (lambda: OUT.remedy, "%dist_recover", "session.recover()"),
    (lambda: timeout_error({}, 2.0, OUT, []), "(--timeout)", "(timeout_s)"),
    (lambda: stacks_text(THREADS, [], whole=False), "%dist_stack", "session.stacks()"),
    (lambda: kept_text("ab12"), "%dist_init --attach ab12", "nbdist.attach('ab12')"),
    (
        lambda: NoArrays().placed(None, "P('x')"),
        "--sharding \"P('x')\"",
        "sharding=\"P('x')\"",
    ),
]
"""Texts of several rooms; that no other text spells a magic by itself is tested below."""


@pytest.mark.parametrize(("make", "typed", "called"), MESSAGES)
def test_a_message_names_magics_to_who_types_them_and_methods_in_python(
    make: Callable[[], object], typed: str, called: str
) -> None:
    def said() -> str:
        try:
            return str(make())
        except Exception as error:  # noqa: BLE001 - whatever it is, its text is compared
            return str(error)

    as_typed = said()
    with through(Door.PYTHON):
        in_python = said()
    assert typed in as_typed and called in in_python
    assert not re.search(r"session\.|nbdist\.\w+\(", as_typed)
    assert not re.search(r"%|(?<![\w-])--\w", in_python)


SPELLED = re.compile(
    r"%dist|%sync|(?<![\w-])--(on|each|cell|timeout|sharding|no-check|attach|restart|yes)\b"
)

KEPT = (
    "engine/frameworks/tensorflow/interrupt.py",
    "engine/frameworks/tensorflow/start.py",
    "launch/model/start_options.py",
)
"""What frees a collective works for no call, and names both; the options of a start have the help of the magic."""


def spelled(path: Path) -> Iterator[str]:
    """Where a text that is no docstring spells a magic or an option of one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and SPELLED.search(node.value):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}"


def test_a_text_reached_from_python_spells_nothing_by_itself() -> None:
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    assert [*spelled(paths["magics/commands.py"]), *spelled(paths[KEPT[0]])]
    asked = [p for name, p in paths.items() if not name.startswith(OF_MAGICS) and name not in KEPT]
    assert [where for path in sorted(asked) for where in spelled(path)] == []


def test_what_goes_to_a_process_takes_the_door_along() -> None:
    assert (SentCall("look", "{}").door, door_sent()) == ("magic", "magic")
    with through(Door.PYTHON):
        assert (SentCall("look", "{}").door, door_sent()) == ("python", "python")


def test_python_is_what_a_call_is_in_where_nothing_else_was_said() -> None:
    said: list[str] = []
    thread = threading.Thread(
        target=contextvars.Context().run, args=(lambda: said.append(command("recover")),)
    )
    thread.start()
    thread.join()
    assert said == ["session.recover()"]
