"""What is saved of each leaf, and which leaves are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from nbdist.engine.frameworks import each
from nbdist.engine.saving.parts import SavedObjects
from nbdist.engine.saving.parts import VariableParts as PartsOf
from nbdist.errors import ArrayError

Parts = functools.partial(PartsOf, objects=SavedObjects(each(lambda one: one.keeper)))


def test_of_an_array_its_spec_and_the_axes_of_its_mesh_are_known(mesh: jax.sharding.Mesh) -> None:
    spec = PartitionSpec(("data", "model"), None)
    (part,) = Parts("w", jax.device_put(np.ones((8, 3)), NamedSharding(mesh, spec))).parts
    assert part.spec == (("data", "model"), None)
    assert part.axes == (("data", 4), ("model", 2))
    assert (part.shape, part.dtype, part.nbytes) == ((8, 3), "float32", 96)


def test_keys_are_saved_as_their_words() -> None:
    found = Parts("key", jax.random.key(3, impl="rbg"))
    assert found.parts[0].key == "rbg"
    assert found.values[0].dtype == np.uint32


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: object(), "of type object, which cannot be saved"),
        (lambda: {"a": [len]}, r"w\['a'\]\[0\] is of type builtin_function_or_method"),
        (lambda: np.array(["a"]), "has the dtype <U1"),
        (lambda: np.array([None]), "has the dtype object"),
        (lambda: keras.callbacks.History(), r"object of Keras \(History\) that is not saved"),
        (lambda: {"model": keras.Sequential()}, "a Sequential that has no arrays yet. Build it"),
    ],
    ids=["object", "function", "text", "objects", "callback", "model within"],
)
def test_what_cannot_be_saved_is_refused_with_what_to_do(
    make: Callable[[], Any], said: str
) -> None:
    with pytest.raises(ArrayError, match=said):
        Parts("w", make())


def test_an_array_without_values_is_refused_but_where_its_values_are_to_come() -> None:
    array = jnp.ones(3)
    array.delete()
    with pytest.raises(ArrayError, match="has no values any more"):
        Parts("w", array)
    assert Parts("w", array, values=False).parts[0].shape == (3,)


def test_a_part_of_a_sum_is_no_array() -> None:
    axes = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((8,), ("x",), axis_types=axes)
    with jax.set_mesh(mesh):
        array = jax.jit(
            lambda x: jnp.einsum("ij,jk->ik", x, x.T, out_sharding=PartitionSpec(unreduced={"x"}))
        )(
            jax.device_put(
                np.ones((8, 8), np.float32), NamedSharding(mesh, PartitionSpec(None, "x"))
            )
        )
    with pytest.raises(ArrayError, match="unreduced over x"):
        Parts("w", array)


@pytest.mark.parametrize("other", [np.arange(3) + 1, np.arange(3.0), 3, [np.arange(3)]])
def test_what_differs_has_another_digest(other: Any) -> None:
    value = np.arange(3)
    assert Parts("w", value).digest() == Parts("w", value.copy()).digest()
    assert Parts("w", value).digest() != Parts("w", other).digest()
