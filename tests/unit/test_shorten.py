from __future__ import annotations

import json

import pytest

from nbdist.notation import shorten
from tests.places import GOLDEN

LONG = [
    array["path"]
    for array in json.loads((GOLDEN / "long_names.json").read_text())["snapshot"]["arrays"]
]


@pytest.mark.parametrize("width", [8, 12, 20, 32, 40, 60, 100])
def test_no_two_names_look_alike_and_all_fit(width):
    texts = shorten(LONG, width)
    assert len(set(texts)) == len(LONG)
    assert all(len(text) <= width for text in texts)


def test_names_that_fit_stay():
    assert shorten(["params.w", "b"], 8) == ("params.w", "b")


def test_the_words_that_differ_are_kept():
    texts = dict(zip(LONG, shorten(LONG, 40), strict=True))
    name = "params['transformer']['encoder']['layers_10']['self_attention']['value'].kernel"
    assert texts[name] == "params…layers_10…value'].kernel"


def test_a_lone_long_name_keeps_its_ends():
    [text] = shorten(["params['transformer']['encoder']['attention'].kernel"], 30)
    assert text.startswith("params") and text.endswith("kernel") and "…" in text


def test_a_name_and_a_longer_one_that_begins_with_it_stay_different():
    names = ["state.very_long_module_name", "state.very_long_module_name.kernel"]
    texts = shorten(names, 20)
    assert texts[0] != texts[1]


def test_a_name_cut_down_does_not_look_like_one_that_fits():
    texts = shorten(["aaaaa…aaaa", "a" * 30], 10)
    assert texts[0] == "aaaaa…aaaa"
    assert texts[1] != texts[0] and len(texts[1]) <= 10


def test_equal_names_have_equal_texts():
    texts = shorten([LONG[0], LONG[1], LONG[0]], 20)
    assert texts[0] == texts[2] != texts[1]


def test_a_width_no_name_can_have_is_refused():
    with pytest.raises(ValueError, match="width is 7; allowed: at least 8"):
        shorten(["a"], 7)
