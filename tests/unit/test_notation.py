"""How numbers, types, specs and names are written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nbdist.notation import (
    array_type_text,
    bytes_text,
    count_text,
    dtype_text,
    entries_text,
    names_text,
    processes_text,
    seconds_text,
    shorten,
)
from tests.places import GOLDEN

LONG = [
    array["path"]
    for array in json.loads((GOLDEN / "long_names.json").read_text())["snapshot"]["arrays"]
]


@pytest.mark.parametrize(
    ("count", "text"), json.loads((GOLDEN / "texts" / "bytes.json").read_text())
)
def test_bytes_are_powers_of_1024_with_at_most_one_decimal(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (
            seconds_text,
            {
                0.04: "0.0 s",
                3.21: "3.2 s",
                59.99: "1 min",
                125: "2 min 5 s",
                3600: "1 h",
                3725: "1 h 2 min",
            },
        ),
        (
            processes_text,
            {
                (): "no process",
                (2,): "process 2",
                (0, 1): "processes 0, 1",
                (0, 1, 2, 3, 5): "processes 0–3, 5",
                (3, 0, 2): "processes 0, 2, 3",
                (7, 5, 6, 1, 2, 3, 3): "processes 1–3, 5–7",
            },
        ),
        (
            dtype_text,
            {
                "float32": "f32",
                "bfloat16": "bf16",
                "uint8": "u8",
                "int4": "i4",
                "complex64": "c64",
                "float8_e4m3fn": "f8_e4m3fn",
                "bool": "bool",
                "key<fry>": "key<fry>",
            },
        ),
        (
            names_text,
            {
                (): "",
                ("w", "b"): "w, b",
                tuple("abcdefgh"): "a, b, c, d, e, f, g, h",
                tuple("abcdefghi"): "a, b, c, d, e, f, g and 2 more",
            },
        ),
        (
            entries_text,
            {
                (("data",), ("model",)): "P('data', 'model')",
                (("data", "model"), ()): "P(('data', 'model'), None)",
                (): "P()",
            },
        ),
    ],
)
def test_what_is_written_reads_as_people_and_jax_write_it(write: Any, texts: Any) -> None:
    assert {value: write(value) for value in texts} == texts


def test_array_types_and_counts() -> None:
    assert array_type_text("float32", (512, 256)) == "f32[512, 256]"
    assert array_type_text("key<fry>", ()) == "key<fry>[]"
    counts = [(1, "copy"), (4, "copy"), (2, "process"), (7, "array")]
    texts = ["1 copy", "4 copies", "2 processes", "7 arrays"]
    assert [count_text(*one) for one in counts] == texts


@pytest.mark.parametrize("width", [8, 12, 20, 32, 40, 60, 100])
def test_no_two_shortened_names_look_alike_and_all_fit(width: int) -> None:
    texts = shorten(LONG, width)
    assert len(set(texts)) == len(LONG)
    assert max(map(len, texts)) <= width
    assert shorten([LONG[0], *LONG], width)[:2] == (texts[0],) * 2


@pytest.mark.parametrize(
    ("names", "width", "kept"),
    [
        (["params.w", "b"], 8, "params.w"),
        (["aaaaa…aaaa", "a" * 30], 10, "aaaaa…aaaa"),
        (["state.very_long_module_name", "state.very_long_module_name.kernel"], 20, None),
        (["params['transformer']['encoder']['attention'].kernel"], 30, "params…attention'].kernel"),
    ],
)
def test_names_that_fit_stay_and_of_others_the_ends(
    names: list[str], width: int, kept: str | None
) -> None:
    texts = shorten(names, width)
    assert len(set(texts)) == len(names) and max(map(len, texts)) <= width
    assert kept is None or texts[0] == kept


def test_the_words_that_differ_are_kept() -> None:
    texts = dict(zip(LONG, shorten(LONG, 40), strict=True))
    name = "params['transformer']['encoder']['layers_10']['self_attention']['value'].kernel"
    assert texts[name] == "params…layers_10…value'].kernel"


def test_a_width_no_name_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"width is 7; .* 8"):
        shorten(["a"], 7)
