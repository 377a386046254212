"""What two processes have of a name is compared: all that is one process's own, by its values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from nbdist.engine.frameworks import imported
from nbdist.engine.frameworks.jax.framework import FRAMEWORK
from nbdist.engine.namespace.digests import Digests, digests


class Box:
    """Of the user's."""

    def __init__(self, value: object) -> None:
        self.value = value


def look(value: object, reference: Callable[[Any], Any] = lambda _: None) -> Digests:
    """As a process that has this value under the name `x`."""
    return digests(
        {"x": value},
        offer_array=FRAMEWORK.offer_array,
        frameworks=imported(),
        reference=reference,
    )


def made(expression: str) -> Any:
    """A new value each time; no array is made before the tests begin."""
    return eval(expression, {"__name__": "__main__", "np": np, "jax": jax, "Box": Box})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "2"),
        ("'a'", "'b'"),
        ("[1, {'k': (2, 3.0)}]", "[1, {'k': (2, 3.5)}]"),
        ("np.arange(3)", "np.array([0, 1, 3])"),
        ("np.arange(3)", "np.arange(3.0)"),
        ("[np.zeros(2), 1]", "[np.ones(2), 1]"),
        ("np.zeros(1 << 20)", "np.eye(1 << 10).ravel()"),
        ("jax.numpy.arange(3)", "jax.numpy.arange(3) + 1"),
        ("jax.random.key(1)", "jax.random.key(2)"),
        ("Box([1])", "Box([2])"),
        ("Box(np.arange(3))", "Box(np.zeros(3, int))"),
        ("lambda: 1", "lambda: 2"),
        ("[[n] for n in range(30_000)]", "[[n] for n in range(1, 30_001)]"),
        ("[np.zeros(3)] + [1] * 30_000", "[np.ones(3)] + [1] * 30_000"),
        ("{'a': list(range(30_000)), 'b': Box(1)}", "{'a': list(range(30_000)), 'b': Box(2)}"),
    ],
)
def test_equal_values_have_one_digest_and_others_another(one: str, other: str) -> None:
    first, second, third = (look(made(text)).found["x"] for text in (one, one, other))
    assert first == second != third


@pytest.mark.parametrize(
    ("value", "own"),
    [
        ("1", False),
        ("[1, 'a']", False),
        ("np.arange(3)", True),
        ("{'a': jax.numpy.arange(3)}", True),
        ("np.arange", False),
        ("[1] * 30_000", False),
        ("[1] * 30_000 + [jax.numpy.arange(3)]", True),
    ],
)
def test_arrays_of_the_process_alone_are_its_own(value: str, own: bool) -> None:
    assert look(made(value)).own == (("x",) if own else ())


def test_devices_are_compared_as_what_another_process_makes_of_them() -> None:
    meshes = [Mesh(np.array([device]), ("a",)) for device in jax.devices()[:2]]

    def reference(value: Any) -> Any:
        return ("mesh", value.axis_names) if isinstance(value, Mesh) else None

    assert len(meshes) == 2
    assert not any(look(mesh).found for mesh in meshes), "a mesh is no plain data"
    assert len({look([mesh], reference).found["x"] for mesh in meshes}) == 1


def test_what_cannot_be_looked_at_is_not_compared(tmp_path: Path) -> None:
    assert look(threading.Lock()) == Digests(found={}, own=())
    with (tmp_path / "file").open("w") as file:
        assert look(file) == Digests(found={}, own=())
