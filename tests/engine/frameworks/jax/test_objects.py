"""Functions of `jax.jit` that are taken to another process are whole there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from nbdist.engine.frameworks.jax.objects import JaxObjects
from nbdist.engine.namespace.packing import packed, unpacked
from nbdist.engine.probe.classes import code_digest

CELL = """
import functools, jax
def plain(x, k=2):
    return x * k + later
step = jax.jit(plain, static_argnames="k")
step.note = "mine"
later = 1
"""


def nothing(value: Any) -> None:
    """Nothing stands in for any object."""


def taken() -> tuple[dict[str, Any], dict[str, Any]]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, namespace)
    names = {name: namespace[name] for name in ("jax", "plain", "step", "later")}
    new: dict[str, Any] = {"__name__": "__main__"}
    new.update(unpacked(packed(names, namespace, nothing, JaxObjects().reduce), new, nothing))
    return namespace, new


def test_it_has_the_attributes_that_it_had() -> None:
    namespace, new = taken()
    step = new["step"]
    assert step.__wrapped__ is new["plain"]
    assert (step.note, step.__name__) == ("mine", "plain")
    assert code_digest(step) == code_digest(namespace["step"]) is not None


def test_it_computes_lowers_and_sees_what_later_cells_set() -> None:
    _, new = taken()
    x = np.arange(3.0)
    assert new["step"](x, k=3).tolist() == [1, 4, 7]
    assert "multiply" in new["step"].lower(x, k=3).as_text()
    new["later"] = 5
    jax.clear_caches()
    assert new["step"](x).tolist() == [5, 7, 9]


def test_nothing_else_is_changed() -> None:
    assert JaxObjects().reduce(lambda: None) is None
    assert JaxObjects().reduce(jax.numpy.arange(3)) is None
