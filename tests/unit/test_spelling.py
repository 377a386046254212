"""Options in texts: as flags for who types a magic, as parameters for who calls `nbdist.start`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nbdist
from nbdist import spelling
from nbdist.errors import OptionError
from nbdist.launch.model.start_options import FLAGS, StartOptions
from nbdist.options import dist_plan
from nbdist.spelling import FLAGS as EXCEPTIONS
from nbdist.spelling import Placeholder, flag, option
from nbdist.starting import start_session

PACKAGE = Path(nbdist.__file__).parent


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
    with spelling.python():
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
                if isinstance(name, ast.Constant):
                    place = path.relative_to(PACKAGE).as_posix()
                    yield f"{place}:{node.lineno}", name.value


def test_texts_name_only_options_there_are() -> None:
    found = dict(named())
    assert len(found) > 100
    of_plan = {
        where: name
        for where, name in found.items()
        if where.startswith(("rehearsal/", "rehearsing/"))
    }
    of_start = {where: name for where, name in found.items() if where not in of_plan}
    assert {where: name for where, name in of_start.items() if name not in FLAGS} == {}
    # They have the same names in `%dist_plan` and in `nbdist.plan`.
    flags, parameters = dist_plan().flags, inspect.signature(nbdist.plan).parameters
    assert of_plan
    assert {n for n in of_plan.values() if flag(n) not in flags or n not in parameters} == set()
    assert EXCEPTIONS.keys() <= FLAGS.keys()


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
        nbdist.start(**options)
    assert in_python in str(python.value)
    assert typed not in str(python.value)


def test_a_start_is_written_as_it_is_typed() -> None:
    assert spelling.start_with("keep", True) == "%dist_init --keep"
    with spelling.python():
        assert spelling.start_with("keep", True) == "nbdist.start(keep=True)"
