"""Where arrays that were saved are laid now."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from nbdist.engine.saving.parts import SavedLeaf
from nbdist.engine.saving.restore import Places
from nbdist.errors import SpecError

SAVED = SavedLeaf(
    path="['w']",
    kind="array",
    dtype="float32",
    shape=(8, 6),
    spec=("data", None),
    axes=(("data", 2), ("model", 1)),
)


def test_on_a_mesh_of_the_saved_axes_whatever_its_sizes(mesh: Mesh) -> None:
    sharding, how = Places({"x": 1, "grid": mesh}).of("p", SAVED)
    assert (sharding.mesh, sharding.spec) == (mesh, PartitionSpec("data", None))
    assert how == "on mesh grid (data=4, model=2)"


def test_the_mesh_that_is_set_comes_first(mesh: Mesh) -> None:
    other = jax.make_mesh((2, 4), ("data", "model"))
    with jax.set_mesh(other):
        sharding, how = Places({"grid": mesh}).of("p", SAVED)
    assert sharding.mesh == other
    assert how == "on the mesh that is set (data=2, model=4)"


@pytest.mark.parametrize("axes", [("data", "x"), ("data",)])
def test_other_axes_are_no_place(axes: tuple[str, ...]) -> None:
    mesh = Mesh(np.array(jax.devices()).reshape((8, 1)[: len(axes)]), axes)
    sharding, how = Places({"grid": mesh}).of("p", SAVED)
    assert sharding.is_fully_replicated
    assert len(sharding.device_set) == 8
    assert how == "replicated: there is no mesh with the axes data, model"


def test_an_axis_that_does_not_divide_is_named_with_what_would() -> None:
    mesh = Mesh(np.array(jax.devices()[:6]).reshape(3, 2), ("data", "model"))
    with pytest.raises(SpecError, match=r"p\['w'\].*data=3.* dimension 0 of 8.* 1, 2, 4, 8;"):
        Places({"grid": mesh}).of("p", SAVED)
