"""The arguments of tools: one dataclass makes the schema, the options of the command, and the refusals."""

from __future__ import annotations

import argparse
from typing import Any

import jsonschema
import pytest

from nbdist.errors import OptionError
from nbdist.tools.arguments import OfFollowCell, OfRunCell, add_to, read, schema
from nbdist.tools.table import TOOLS


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_each_schema_is_one_and_takes_what_it_says_is_required(tool: Any) -> None:
    found = schema(tool.arguments)
    jsonschema.Draft202012Validator.check_schema(found)
    kinds = {"string": "x", "integer": 1, "number": 1.5, "boolean": True}
    given = {name: kinds[found["properties"][name]["type"]] for name in found["required"]}
    jsonschema.validate(given, found)
    assert read(tool.arguments, given)
    for name in found["required"]:
        with pytest.raises(OptionError, match=name):
            read(tool.arguments, {key: given[key] for key in given if key != name})


@pytest.mark.parametrize(
    "given",
    [
        {"code": 3},
        {"code": "1", "timeout_s": "soon"},
        {"code": "1", "timeout_s": -1.0},
        {"code": "1", "timeout_s": float("nan")},
        {"code": "1", "timeout_s": float("inf")},
        {"code": "1", "wait": 1},
        {"code": "1", "most_characters": 1.5},
        {"code": "1", "codes": "2"},
        {},
    ],
)
def test_what_no_schema_allows_is_refused_with_the_name_of_the_argument(
    given: dict[str, Any],
) -> None:
    wrong = next((name for name in given if name != "code"), "code")
    with pytest.raises(OptionError, match=rf"argument {wrong}\b") as refused:
        read(OfRunCell, given)
    assert "OfRunCell" not in str(refused.value)


def test_a_command_has_the_arguments_of_the_tool_with_the_same_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_to(parser, OfRunCell)
    words = ["x = 1", "--on", "0", "--timeout", "2.5", "--no-wait", "--most-characters", "9"]
    assert vars(parser.parse_args(words)) == {
        "code": "x = 1",
        "on": "0",
        "timeout_s": 2.5,
        "wait": False,
        "most_characters": 9,
        "session": "",
    }
    assert read(OfRunCell, {"code": ""}) == OfRunCell(**vars(parser.parse_args([""])))
    follow = argparse.ArgumentParser()
    add_to(follow, OfFollowCell)
    assert follow.parse_args(["7"]).cell == 7
