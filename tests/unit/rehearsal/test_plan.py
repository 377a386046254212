"""`nbdist.plan` of what needs no framework: NumPy's arrays, rules, functions, and input that cannot be."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import nbdist
from nbdist.errors import ArrayError, OptionError

GB = 1024**3


def zeros(*shape: int, dtype: str = "float32") -> Any:
    """An array of this shape that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


TREE = {
    "embed": zeros(32000, 512),
    "blocks": [{"up": zeros(512, 2048), "bias": zeros(2048)} for _ in range(3)],
}
RULES = [("up", (None, "model")), ("embed", (("data", "model"), None)), ("gate", ("model",))]


def by_name(plan: Any) -> dict[str, Any]:
    return {array.name: array for array in plan.arrays}


def test_bytes_and_copies_of_each_array_follow_from_its_rule() -> None:
    plan = nbdist.plan(TREE, RULES, devices=16, mesh="data=4,model=4", memory="1GB", name="params")
    arrays = by_name(plan)
    up = arrays["blocks/1/up"]
    assert (up.path, up.spec) == ("params['blocks'][1]['up']", ((), ("model",)))
    assert (up.device_bytes, up.copies, up.piece_shape) == (512 * 512 * 4, 4, (512, 512))
    assert (up.rule, up.state) == ("up", "even")
    embed = arrays["embed"]
    assert (embed.device_bytes, embed.copies) == (2000 * 512 * 4, 1)
    bias = arrays["blocks/0/bias"]
    assert (bias.rule, bias.asked, bias.whole, bias.copies) == (None, False, True, 16)
    assert plan.unmatched == ("gate",)
    assert plan.device_bytes == sum(array.device_bytes for array in plan.arrays)
    assert (plan.memory_bytes, plan.fits) == (GB, True)
    assert plan.copies_bytes == 3 * (12 * 512 * 512 * 4 + 15 * 2048 * 4)


def test_the_first_rule_that_is_found_counts_and_none_leaves_an_array_whole() -> None:
    rules = [(r"blocks/\d+/up$", None), ("up|bias", ("data",)), (re.compile("embed"), ())]
    arrays = by_name(nbdist.plan(TREE, rules, mesh={"data": 4}))
    assert arrays["blocks/0/up"].rule == r"blocks/\d+/up$" and arrays["blocks/0/up"].whole
    assert arrays["blocks/0/bias"].spec == (("data",),)
    assert arrays["embed"].asked and arrays["embed"].whole


def test_a_function_takes_the_path_or_the_path_and_the_shape() -> None:
    one = nbdist.plan(TREE, lambda path: ("x",) if "embed" in path else None, mesh="x=2")
    two = nbdist.plan(TREE, lambda path, shape: ("x",) if shape[0] > 9999 else None, mesh="x=2")
    given = nbdist.plan(
        TREE, lambda path, sure=True: ("x",) if "embed" in path else None, mesh="x=2"
    )
    assert one == two == given
    assert by_name(one)["embed"].spec == (("x",), ())
    assert not by_name(one)["blocks/0/up"].asked


def test_what_does_not_fit_is_said_with_what_an_even_split_would_need() -> None:
    just = nbdist.plan(zeros(4, GB), topology="v5e-4", mesh="x=4", name="w")
    assert (just.fits, just.device_bytes) == (True, 16 * GB)
    assert "it does not fit" not in just.text()
    big = nbdist.plan(zeros(8, GB), topology="v5e-4", mesh="x=4", name="w")
    assert big.fits is False
    lines = big.text().splitlines()
    said = [
        "32 GB of 16 GB per device, 200 %: it does not fit",
        "all 4 devices, each would hold 8 GB",
    ]
    assert [sum(line.endswith(one) for line in lines) for one in said] == [1, 1]


def test_impossible_and_uneven_specs_are_all_shown_and_counted_apart() -> None:
    tree = {"a": zeros(10, 16), "b": zeros(8), "c": zeros(8), "fine": zeros(16)}
    rules = [("a", ("x",)), ("b", (None, "x")), ("c", ("y",)), ("fine", ("x",))]
    plan = nbdist.plan(tree, rules, mesh="x=4", memory="1GB", name="t")
    assert [array.name for array in plan.impossible] == ["b", "c"]
    assert [array.name for array in plan.uneven] == ["a"]
    # The uneven one with its padding: 3 of 12 rows.
    assert plan.device_bytes == 3 * 16 * 4 + 4 * 4
    assert plan.fits is None
    assert [array.why.partition(" ")[0] for array in plan.impossible] == ["P(None,", "axis"]
    marked = [line[:8] for line in plan.text().splitlines() if line.startswith(("! t", "~ t"))]
    assert marked == ["! t['b']", "! t['c']", "~ t['a']"]


def test_the_text_folds_what_is_alike_and_names_what_to_look_at() -> None:
    plan = nbdist.plan(TREE, RULES[:1], devices=16, mesh="data=4,model=4", name="params")
    assert plan.text().splitlines() == [
        "16 devices, mesh data=4 × model=4",
        "params: 7 arrays, 74.5 MB; needs 65.5 MB per device",
        "   array                          type             spec              per device  replicas",
        "·  params['embed']                f32[32000, 512]  none                 62.5 MB       16×",
        "   params['blocks'][0–2]['up']    f32[512, 2048]   P(None, 'model')        1 MB        4×  "
        "×3 identical, 3 MB",
        "   params['blocks'][0–2]['bias']  f32[2048]        none                    8 KB       16×  "
        "×3 identical, 24 KB",
        "replicated on every device: 4 arrays, 62.5 MB on each",
        "· params['embed']: model=4 divides dimension 0 of 32000",
        "  no spec is given for 4 of them, 62.5 MB",
        "replicas: 974 MB of the 1 GB that all devices would hold",
        "Not counted: gradients, activations and what a step needs besides; padding of small dimensions.",
    ]
    assert repr(plan) == plan.text()


def test_a_notebook_gets_the_same_as_a_table_with_everything_escaped() -> None:
    bundle = nbdist.plan({"<b>": zeros(8)}, mesh="x=4", name="t")._repr_mimebundle_()
    assert bundle["text/plain"].startswith("4 devices, mesh x=4")
    assert "t[&#x27;&lt;b&gt;&#x27;]" in bundle["text/html"]
    assert "<b>'" not in bundle["text/html"] and "<script" not in bundle["text/html"]


def test_many_rows_are_counted() -> None:
    tree = {f"{chr(97 + n // 26)}{chr(97 + n % 26)}": zeros(8, n + 1) for n in range(60)}
    text = nbdist.plan(tree, mesh="x=4", name="t").text()
    assert "\n… and 20 more arrays, 6.6 KB on " in text


class Pair(NamedTuple):
    left: Any
    right: Any


def test_a_named_tuple_and_a_bare_array_have_the_paths_one_would_write() -> None:
    plan = nbdist.plan(Pair(zeros(4), [zeros(2)]), mesh="x=2", name="p")
    assert [array.path for array in plan.arrays] == ["p.left", "p.right[0]"]
    assert [array.name for array in plan.arrays] == ["left", "right/0"]
    (alone,) = nbdist.plan(zeros(4), [("", ("x",))], mesh="x=2", name="w").arrays
    assert (alone.path, alone.spec) == ("w", (("x",),))


@pytest.mark.parametrize("memory", ["80GB", "80 GiB", "80g", 80 * GB])
def test_memory_is_read_in_powers_of_1024(memory: Any) -> None:
    assert nbdist.plan(zeros(4), mesh="x=2", memory=memory).memory_bytes == 80 * GB


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"mesh": "x=4", "topology": "v5e-8"}, "4 devices, v5e:2x4 has 8"),
        ({"mesh": "x=3", "devices": 8}, "3 devices, the plan has 8"),
        ({"mesh": "x=8", "devices": 8, "topology": "v5e-8"}, "topology and devices both"),
        ({"mesh": "x=8", "devices": 0}, "devices 0: allowed"),
        ({"mesh": "x=8", "slices": 2}, "slices 2 needs topology"),
        ({"mesh": "x=8", "topology": "v5e-8", "slices": 0}, "0 slices"),
        ({"topology": "v5e-8"}, "Write mesh='data=16"),
        ({"mesh": "x=8", "memory": "much"}, "memory: cannot read 'much'"),
        ({"mesh": "x=8", "memory": 0}, "memory: cannot read 0"),
        ({"mesh": "x=8", "memory": "0GB"}, "memory: cannot read '0GB'"),
        ({"mesh": "x=8", "specs": [("(", ("x",))]}, "'(' is no regular expression"),
        ({"mesh": "x=8", "specs": [("a", 3)]}, "3 is no spec"),
        ({"mesh": "x=8", "specs": [("a", (3,))]}, "(3,) is no spec"),
        ({"mesh": "x=8", "specs": "x"}, "'x' is not readable as specs"),
        ({"mesh": "x=8", "specs": 7}, "7 is not readable as specs"),
        ({"mesh": "x=8", "specs": lambda path: 3}, "3 is no spec"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_could(arguments: dict[str, Any], answer: str) -> None:
    with pytest.raises(OptionError, match=re.escape(answer)):
        nbdist.plan(zeros(4), **arguments)


@pytest.mark.parametrize("value", [{}, [], "text", 3, None, {"a": object()}])
def test_a_value_without_arrays_is_refused(value: Any) -> None:
    with pytest.raises(ArrayError, match="params has no arrays to plan"):
        nbdist.plan(value, mesh="x=2", name="params")
