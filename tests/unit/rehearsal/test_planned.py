"""Specs that a mesh and a shape do not allow, and what would fit; these are the texts' only tests."""

from __future__ import annotations

import pytest

from nbdist.rehearsal.planned import could_split, impossible, padded, uneven

MESH = {"data": 4, "model": 8, "one": 1}


@pytest.mark.parametrize(
    ("entries", "shape", "answer"),
    [
        ((("modle",),), (8,), "axis 'modle' is not in mesh data=4 × model=8 × one=1. Did you mean 'model'?"),
        ((("x",),), (8,), "axis 'x' is not in mesh data=4 × model=8 × one=1."),
        ((("data",), ("data",)), (8, 8), "P('data', 'data') uses axis 'data' 2 times"),
        ((("data", "data"),), (8,), "P(('data', 'data')) uses axis 'data' 2 times"),
        (((), ("model",)), (8,), "P(None, 'model') has 2 entries, the array has 1 dimension."),
        ((("model",),), (), "P('model') has 1 entry, the array has 0 dimensions."),
    ],
)  # fmt: skip
def test_what_no_array_can_have_is_named(entries: tuple, shape: tuple, answer: str) -> None:
    assert (impossible(entries, shape, MESH) or "").startswith(answer)


@pytest.mark.parametrize(
    ("entries", "shape"), [((), ()), ((), (3,)), ((("data",),), (3, 5)), ((("data", "model"),), (32,))]
)  # fmt: skip
def test_what_an_array_can_have_is_not_impossible(entries: tuple, shape: tuple) -> None:
    assert impossible(entries, shape, MESH) is None
    assert len(padded(entries, shape)) == len(shape)


@pytest.mark.parametrize(
    ("entries", "shape", "fits"),
    [
        # What would do: another dimension, a part of the axes, another size of the axis, padding.
        (((), ("model",)), (64, 10), "split dimension 0 of 64 instead, or a mesh with model=2, or pad it to 16"),
        ((("model",), ()), (12, 7), "a mesh with model=4, or pad it to 16"),
        ((("data", "model"),), (36,), "split it over data alone, or pad it to 64"),
        ((("model", "data"),), (36,), "pad it to 64"),
        ((("model",),), (7,), "pad it to 8"),
        ((("model",), ("data",)), (7, 16), "pad it to 8"),
    ],
)  # fmt: skip
def test_an_uneven_split_is_answered_with_what_would_fit(
    entries: tuple, shape: tuple, fits: str
) -> None:
    assert (uneven(entries, shape, MESH) or "").endswith(f"Fits: {fits}.")


@pytest.mark.parametrize(
    ("entries", "shape"), [((("model",),), (16,)), (((),), (7,)), ((("one",),), (7,)), ((("model",),), (0,))]
)  # fmt: skip
def test_an_even_split_is_none(entries: tuple, shape: tuple) -> None:
    assert uneven(entries, shape, MESH) is None


@pytest.mark.parametrize(
    ("entries", "shape", "offered"),
    [
        (((), ()), (4096, 32000), "model=8 divides dimension 1 of 32000"),
        (((), ()), (12, 7), "data=4 divides dimension 0 of 12"),
        ((("model",), ()), (16, 8), "data=4 divides dimension 1 of 8"),
        (((),), (7,), None),
        ((), (), None),
    ],
)
def test_an_axis_that_is_not_used_and_divides_is_offered(entries, shape, offered) -> None:
    assert could_split(entries, shape, MESH) == offered
