from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.notation import (
    array_type_text,
    bytes_text,
    count_text,
    dtype_text,
    names_text,
    processes_text,
    seconds_text,
)

_TEXTS = Path(__file__).parents[1] / "golden" / "texts"


@pytest.mark.parametrize(("count", "text"), json.loads((_TEXTS / "bytes.json").read_text()))
def test_bytes_are_powers_of_1024_with_at_most_one_decimal(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (3.21, "3.2 s"),
        (59.99, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3725, "1 h 2 min"),
    ],
)
def test_seconds_turn_to_minutes_and_hours(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], "no process"),
        ([2], "process 2"),
        ([0, 1], "processes 0, 1"),
        ([0, 1, 2, 3, 5], "processes 0–3, 5"),
        ([3, 0, 2], "processes 0, 2, 3"),
        ([7, 5, 6, 1, 2, 3, 3], "processes 1–3, 5–7"),
    ],
)
def test_processes_are_written_as_ranges_from_three_on(ids, text):
    assert processes_text(ids) == text


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("uint8", "u8"),
        ("int4", "i4"),
        ("complex64", "c64"),
        ("float8_e4m3fn", "f8_e4m3fn"),
        ("bool", "bool"),
        ("key<fry>", "key<fry>"),
    ],
)
def test_dtypes_have_their_short_names(dtype, text):
    assert dtype_text(dtype) == text


def test_array_types_read_as_in_jax():
    assert array_type_text("float32", (512, 256)) == "f32[512, 256]"
    assert array_type_text("key<fry>", ()) == "key<fry>[]"


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "copy", "1 copy"),
        (4, "copy", "4 copies"),
        (2, "process", "2 processes"),
        (7, "array", "7 arrays"),
    ],
)
def test_counts_have_their_plural(count, noun, text):
    assert count_text(count, noun) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["w"], "w"),
        (["w", "b"], "w, b"),
        (list("abcdefgh"), "a, b, c, d, e, f, g, h"),
        (list("abcdefghi"), "a, b, c, d, e, f, g and 2 more"),
        ((str(n) for n in range(1000)), "0, 1, 2, 3, 4, 5, 6 and 993 more"),
    ],
)
def test_of_many_names_the_first_are_listed_and_the_rest_counted(names, text):
    assert names_text(names) == text
