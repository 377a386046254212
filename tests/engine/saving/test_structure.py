"""Containers are written as plain data, and made again of it: no class of anybody's is."""

from __future__ import annotations

import collections
import json
from typing import Any

import pytest

from nbdist.engine.saving.folder import made, plain

State = collections.namedtuple("State", "mu nu")


@pytest.mark.parametrize(
    "value",
    [0, [0, 1], (0, (1,)), {"a": 0, 3: [1, None], "b": {}}, [], (), None, {"a": ({"b": [0]},)}],
)
def test_what_is_made_is_what_was_written(value: Any) -> None:
    found = made(json.loads(json.dumps(plain(value))))
    assert found == value and type(found) is type(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "value", [State(0, 1), collections.OrderedDict(a=0), {(1, 2): 0}, [State(0, 1)], object()]
)
def test_classes_of_their_own_are_left_to_who_has_one(value: Any) -> None:
    with pytest.raises(TypeError):
        plain(value)


@pytest.mark.parametrize("data", [None, "x", {"tuple": 1}, {"os": ["x"]}, {"dict": [["a"]]}])
def test_what_describes_no_container_is_an_error(data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        made(data)
