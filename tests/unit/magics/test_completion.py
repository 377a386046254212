"""Completion of arrays that processes have reported, while all of them are in a cell."""

from __future__ import annotations

import pytest

from nbdist.magics.completion import reported

PATHS = [
    "w",
    "params['w']",
    "params['b']",
    "model.blocks[0].qkv",
    "model.blocks[1].qkv",
    "model.head",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["w", "params", "model"]),
        ("p", ["params"]),
        ("params", ["params['w']", "params['b']"]),
        ("params['w", ["params['w']"]),
        ("params['w']", []),
        ("model.", ["model.blocks", "model.head"]),
        ("model.blocks[", ["model.blocks[0]", "model.blocks[1]"]),
        ("other", []),
    ],
)
def test_a_path_goes_on_by_a_step(text: str, expected: list[str]) -> None:
    assert reported(PATHS, text) == expected
