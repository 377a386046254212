"""The doors of a start offer what `StartOptions` has, no more and no less, and say the same of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest

import nbdist
from nbdist.errors import OptionError
from nbdist.launch.model.start_options import FLAGS, StartOptions, environment_of
from nbdist.launch.planning import choose_placement, make_plan
from nbdist.magics import options
from nbdist.starting import RULES

FIELDS = {field.name: field for field in fields(StartOptions)}


def documented(function: object) -> list[str]:
    text = (inspect.getdoc(function) or "").split("Args:", 1)[1].split("Returns:")[0]
    return re.findall(r"^  (\w+): \S", text, re.MULTILINE)


def test_start_has_each_option_with_its_type_and_default() -> None:
    parameters = inspect.signature(nbdist.start).parameters
    assert list(parameters) == [*FIELDS, "progress"] == documented(nbdist.start)
    for name in FIELDS:
        parameter = parameters[name]
        assert (parameter.default, parameter.annotation) == (
            FIELDS[name].default,
            FIELDS[name].type,
        )


def test_attach_has_those_that_it_can_take() -> None:
    assert list(inspect.signature(nbdist.attach).parameters) == documented(nbdist.attach)
    assert FIELDS.keys() > options.ATTACH_ARGUMENTS


def test_a_line_without_options_stands_for_the_defaults() -> None:
    assert (
        StartOptions(**options.start_arguments(options.parser("dist_init").parse("")))
        == StartOptions()
    )


@pytest.mark.parametrize("name", FIELDS)
def test_each_option_has_a_flag(name: str) -> None:
    assert FLAGS[name].name in options.parser("dist_init").flags
    assert FLAGS[name].name in options.parser("dist_init").format_help()


class Recording:
    """Options with their defaults, and the names of those that were read."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return FIELDS[name].default

    def chosen(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}


def test_no_option_is_left_unread() -> None:
    recording: Any = Recording()
    make_plan(recording, choose_placement(recording))
    assert recording.read | {*RULES, "sync"} == FIELDS.keys()


def test_what_is_no_option_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match="devices"):
        nbdist.start(2, devices=4)  # type: ignore[call-arg]


def test_a_name_alone_forwards_the_value_it_has_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_TOKEN", "a=b")
    monkeypatch.delenv("NOT_SET", raising=False)
    assert environment_of(["HUB_TOKEN", "A=", "B=1=2"]) == {
        "HUB_TOKEN": "a=b",
        "A": "",
        "B": "1=2",
    }
    with pytest.raises(OptionError, match="--env NOT_SET: this kernel has no such variable"):
        environment_of(["NOT_SET"])
