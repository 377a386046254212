"""Summaries of arrays, put together out of what each process has."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from msgspec import structs

from nbdist import summary
from nbdist.contract.calls.inspection import ArraySummary
from nbdist.contract.wire import decode, encode
from nbdist.engine.frameworks.jax import arrays as engine
from tests.engine.arrays import spread


def parts(array):
    """As two processes would answer, each with every second piece."""
    text = json.dumps(encode(engine.summarize(array)), allow_nan=False)
    whole = decode(ArraySummary, json.loads(text))
    return [structs.replace(whole, pieces=whole.pieces[half::2]) for half in (0, 1)]


def test_a_small_array_is_shown_whole(mesh):
    values = np.arange(32, dtype="float32").reshape(8, 4)
    shown = summary.text(parts(spread(values, mesh, "data", "model"))).splitlines()
    assert shown[0] == "f32[8, 4]  P('data', 'model') on mesh data=4 × model=2"
    assert "\n".join(shown[1:-1]) == str(values)
    assert shown[-1] == "min 0  mean 15.5  max 31  NaN 0"


def test_of_a_large_one_the_corners_as_numpy_shows_them(mesh):
    values = np.arange(64 * 48 * 2, dtype="int32").reshape(64, 48, 2)
    shown = summary.text(parts(spread(values, mesh, "data", "model"))).splitlines()
    assert "\n".join(shown[1:-1]) == str(values)
    assert "..." in shown[4]
    assert shown[-1] == "min 0  mean 3071.5  max 6143  NaN 0"


def test_copies_count_once_and_nan_not_at_all(mesh):
    values = np.ones((8, 4), "bfloat16")
    values[0, 0], values[7, 3] = np.nan, 3
    shown = summary.text(parts(spread(values, mesh, "data")))
    assert shown.endswith("min 1  mean 1.06452  max 3  NaN 1, left out of these")
    assert "[nan 1 1 1]" in shown and "[1 1 1 3]" in shown


def test_what_is_missing_is_said_and_never_made_up(mesh):
    array = spread(np.full((8, 4), 7.0, "float32"), mesh, "data", "model")
    shown = summary.text(parts(array)[:1])
    assert shown.count("7.") == 16 and shown.count("--") == 16
    assert "of 16 of 32 values: these processes have no others" in shown


def test_a_process_with_too_much_reads_nothing(mesh, monkeypatch):
    monkeypatch.setattr(engine, "MOST_BYTES", 15)
    array = spread(np.ones((8, 4), "float32"), mesh, "data", "model")
    shown = summary.text(parts(array)).splitlines()
    assert shown[1:] == ["of no values: the rest is too large to be looked at"]


@pytest.mark.parametrize(
    ("values", "last"),
    [
        (np.array([True, False] * 4), "min 0  mean 0.5  max 1  NaN 0"),
        (np.array([np.inf, -np.inf] * 4, "float32"), "min -inf  mean nan  max inf  NaN 0"),
        (np.full(8, np.nan, "float16"), "NaN 8"),
        (np.array([1j, np.nan] * 4, "complex64"), "NaN 4"),
        (np.full(8, 2**31 - 1, "int32"), "min 2147483647  mean 2.14748e+09  max 2147483647  NaN 0"),
        (np.zeros((8, 0), "float32"), "no values"),
        (np.full(8, 200, "uint8"), "min 200  mean 200  max 200  NaN 0"),
        (np.full(8, 1.5, "float8_e5m2"), "min 1.5  mean 1.5  max 1.5  NaN 0"),
        (np.full(8, -7, "int4"), "min -7  mean -7  max -7  NaN 0"),
    ],
)
def test_every_kind_of_number(mesh, values, last):
    assert summary.text(parts(spread(values, mesh, "data"))).splitlines()[-1] == last


def test_one_with_many_axes_has_numbers_only(mesh):
    array = spread(np.ones((8,) * 5, "int8"), mesh, "data")
    assert summary.text(parts(array)).splitlines() == [
        "i8[8, 8, 8, 8, 8]  P('data', None, None, None, None) on mesh data=4 × model=2",
        "min 1  mean 1  max 1  NaN 0",
    ]


def test_what_has_no_values_has_no_summary(mesh):
    gone = spread(np.ones(8), mesh, "data")
    gone.delete()
    assert engine.summarize(gone) is None
    assert engine.summarize(jax.random.split(jax.random.key(0), 8)) is None
