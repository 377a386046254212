"""What two processes have of a name is compared with the values of arrays that a process has in whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.frameworks import parts
from nbdist.engine.frameworks.jax import FRAMEWORK
from nbdist.engine.namespace import names as module
from nbdist.engine.namespace.names import digests
from nbdist.engine.probe.samples import Sample, Sampler
from nbdist.engine.values.arrays import OfferedArray, ReadablePiece


def look(value: object) -> Sample:
    """As a process that has this value."""
    return digests({"x": value}, offer_array=FRAMEWORK.arrays().offer_array, frameworks=parts())[
        "x"
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("jax.numpy.arange(3)", "jax.numpy.arange(3) + 1"),
        ("[np.zeros(2), jax.numpy.arange(3)]", "[np.zeros(2), jax.numpy.arange(3) + 1]"),
        ("jax.random.key(1)", "jax.random.key(2)"),
        ("np.zeros(1 << 21)", "np.eye(1 << 11).ravel()[: 1 << 21]"),
        ("[[n] for n in range(30_000)]", "[[n] for n in range(1, 30_001)]"),
        ("itertools.count(1)", "itertools.count(2)"),
    ],
)
def test_equal_values_have_one_text_and_others_another(one: str, other: str) -> None:
    first, second, third = (
        look(eval(text, {"np": np, "jax": jax, "itertools": __import__("itertools")}))
        for text in (one, one, other)
    )
    assert first == second != third
    assert not first.text.endswith("?")
    assert first.own


def test_of_an_array_without_values_nothing_can_differ() -> None:
    local, key = jax.numpy.arange(3.0), jax.random.PRNGKey(1)
    for array in (local, key):
        array.delete()
        for seen in (look(array), Sampler().of(array)):
            assert not seen.own
            assert not seen.text.endswith("?")


def test_a_variable_of_a_framework_is_seen_as_its_array() -> None:
    class Variable:
        pass

    held = Variable()

    class Parts:
        def array_of(self, value: Any) -> Any:
            return np.arange(3) if value is held else value

        def model_digest(self, value: object, path: str, offer_array: Any) -> str | None:
            return "a model" if value == "model" else None

    seen = digests({"x": held, "y": {1: held}}, offer_array=lambda v, p: None, frameworks=[Parts()])  # type: ignore[list-item]
    assert not any(one.text.endswith("?") for one in seen.values())


def test_copies_of_one_array_are_compared_where_each_process_has_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def offered(*pieces: Any) -> OfferedArray:
        parts = [ReadablePiece(bounds=[[0, 2]], read=lambda piece=piece: piece) for piece in pieces]  # type: ignore[misc]
        return OfferedArray(dtype="float32", shape=[2], nbytes=8, sharding="P()", pieces=parts)

    def text(piece: Any, *, whole: bool) -> Sample:
        monkeypatch.setattr(module, "_is_whole_everywhere", lambda array: whole)
        found: Mapping[str, Sample] = digests(
            {"x": jax.numpy.zeros(2)}, offer_array=lambda v, p: offered(piece), frameworks=[]
        )
        return found["x"]

    one, other = np.zeros(2), np.ones(2)
    assert text(one, whole=True) != text(other, whole=True)
    assert text(one, whole=False) == text(other, whole=False)
    assert not text(one, whole=True).own


def test_which_arrays_each_process_has_in_whole() -> None:
    mesh = jax.make_mesh((2, 4), ("a", "b"))
    for spec in (P(), P("a"), P(None, "b")):
        array = jax.device_put(np.zeros((4, 8)), NamedSharding(mesh, spec))
        assert module._is_whole_everywhere(array)  # here one process has all devices
    assert not module._is_whole_everywhere(np.zeros(3))
