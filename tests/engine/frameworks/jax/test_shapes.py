"""Pytrees of JAX by their shapes, and plans of them against what JAX itself computes."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.errors import OptionError

TREES = 200
DTYPES = [jnp.float32, jnp.bfloat16, jnp.int8, jnp.int32, jnp.float8_e4m3fn, jnp.bool_, jnp.int4]


def struct(*shape: int, dtype: Any = jnp.float32, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def random_mesh(chance: random.Random) -> dict[str, int]:
    names = ["data", "fsdp", "model", "expert"][: chance.randint(1, 4)]
    return {name: chance.choice([1, 2, 3, 4, 8, 16]) for name in names}


def random_spec(chance: random.Random, dimensions: int, axes: dict[str, int]) -> P:
    """A spec that JAX takes: each axis once, at most one entry for each dimension."""
    free = list(axes)
    chance.shuffle(free)
    entries: list[Any] = []
    for _ in range(chance.randint(0, dimensions)):
        taken = [free.pop() for _ in range(min(len(free), chance.choice([0, 0, 1, 1, 2, 3])))]
        entries.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
    return P(*entries)


def random_tree(chance: random.Random, axes: dict[str, int], depth: int = 0) -> tuple[Any, Any]:
    """A pytree of functions that make arrays, and the specs for it."""
    if depth == 3 or (depth and chance.random() < 0.4):
        shape = tuple(
            chance.choice([0, 1, 3, 7, 16, 48, 96, 1000, 4096]) for _ in range(chance.randint(0, 3))
        )
        return struct(*shape, dtype=chance.choice(DTYPES)), random_spec(chance, len(shape), axes)
    pairs = [random_tree(chance, axes, depth + 1) for _ in range(chance.randint(1, 3))]
    values, specs = [one for one, _ in pairs], [one for _, one in pairs]
    match chance.choice(["dict", "list", "tuple"]):
        case "dict":
            return (
                {f"k{n}": value for n, value in enumerate(values)},
                {f"k{n}": spec for n, spec in enumerate(specs)},
            )
        case "list":
            return values, specs
        case _:
            return tuple(values), tuple(specs)


def bytes_of_jax(leaf: Any, spec: P, mesh: AbstractMesh) -> int | None:
    """What JAX says that a device holds; None where it refuses the sharding."""
    try:
        piece = NamedSharding(mesh, spec).shard_shape(leaf.shape)
    except ValueError:
        return None
    return math.prod(piece) * leaf.dtype.itemsize


def test_bytes_of_200_generated_trees_are_those_of_jax() -> None:
    even = uneven = 0
    for seed in range(TREES):
        chance = random.Random(seed)
        axes = random_mesh(chance)
        tree, specs = random_tree(chance, axes)
        mesh = AbstractMesh(tuple(axes.values()), tuple(axes))
        shapes = jax.eval_shape(
            lambda tree=tree: jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), tree)
        )
        leaves = jax.tree.leaves(shapes)
        asked = jax.tree.leaves(specs, is_leaf=lambda one: isinstance(one, P))
        plan = nbdist.plan(shapes, specs, mesh=axes)
        assert not plan.impossible and not plan.unmatched
        assert [one.shape for one in plan.arrays] == [leaf.shape for leaf in leaves]
        for planned, leaf, spec in zip(plan.arrays, leaves, asked, strict=True):
            expected = bytes_of_jax(leaf, spec, mesh)
            if expected is None:
                assert planned.state == "uneven", (seed, planned)
                uneven += 1
            else:
                assert (planned.state, planned.device_bytes) == ("even", expected), (seed, planned)
                even += 1
        if not plan.uneven:
            assert plan.device_bytes == sum(
                bytes_of_jax(*one, mesh) or 0 for one in zip(leaves, asked, strict=True)
            )
    # Both kinds are there, or the test would say nothing.
    assert even > 300 and uneven > 100


def test_pieces_of_uneven_splits_are_those_that_xla_pads() -> None:
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, P("x"))
    padded = jax.jit(lambda x: jax.lax.with_sharding_constraint(jnp.sin(x), sharding).sum())
    text = padded.lower(struct(13, 4)).compile().as_text()
    (planned,) = nbdist.plan(struct(13, 4), P("x"), mesh=mesh).arrays
    assert planned.piece_shape == (2, 4) and planned.device_bytes == 2 * 4 * 4
    assert "f32[2,4]" in text


def test_an_arrays_own_sharding_and_mesh_are_taken_without_specs() -> None:
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    array = jax.device_put(np.zeros((8, 4), np.float32), NamedSharding(mesh, P("a", "b")))
    plan = nbdist.plan({"w": array, "s": struct(8, sharding=NamedSharding(mesh, P("b")))})
    assert plan.axes == {"a": 4, "b": 2} and plan.made_for is None
    assert {one.name: one.device_bytes for one in plan.arrays} == {"w": 2 * 2 * 4, "s": 4 * 4}
    assert array.sharding.shard_shape(array.shape) == (2, 2)


def test_specs_for_another_mesh_are_planned_on_the_one_asked_for_and_that_is_said() -> None:
    mesh = AbstractMesh((4, 2), ("a", "b"))
    plan = nbdist.plan(struct(64, 64), NamedSharding(mesh, P("a", "b")), mesh="a=16,b=16")
    assert plan.arrays[0].device_bytes == 4 * 4 * 4
    assert "a=4 × b=2; planned is a=16 × b=16" in plan.text()


def test_a_spec_stands_for_all_below_its_place_and_none_for_nothing() -> None:
    tree = {"mlp": {"up": struct(8, 8), "down": struct(8, 8)}, "norm": struct(8)}
    plan = nbdist.plan(tree, {"mlp": P("x"), "norm": None}, mesh="x=4", name="p")
    assert [(one.path, one.spec, one.asked) for one in plan.arrays] == [
        ("p['mlp']['down']", (("x",), ()), True),
        ("p['mlp']['up']", (("x",), ()), True),
        ("p['norm']", ((),), False),
    ]
    assert all(
        one.spec == (("x",), ()) for one in nbdist.plan(tree["mlp"], P("x"), mesh="x=4").arrays
    )


def test_specs_of_what_is_not_there_are_named() -> None:
    plan = nbdist.plan({"a": struct(8)}, {"a": P("x"), "b": {"c": P("x")}}, mesh="x=4")
    assert plan.unmatched == ("b/c",)
    assert "spec that matches nothing:\n  b/c" in plan.text()


def test_what_is_left_to_the_compiler_has_no_bytes() -> None:
    (one,) = nbdist.plan(struct(8, 8), P("x", P.UNCONSTRAINED), mesh="x=4").arrays
    assert (one.state, one.device_bytes) == ("impossible", None)
    assert one.why == "P.UNCONSTRAINED leaves dimension 1 to the compiler."


def test_the_state_of_an_optimizer_and_keys_are_arrays_as_well() -> None:
    state = jax.eval_shape(optax.adam(1e-3).init, {"w": struct(64, 64)})
    plan = nbdist.plan(state, [("w$", P("x"))], mesh="x=8", name="opt")
    held = {one.path: one.device_bytes for one in plan.arrays}
    assert held == {"opt[0].count": 4, "opt[0].mu['w']": 2048, "opt[0].nu['w']": 2048}
    (key,) = nbdist.plan(jax.random.key(0), mesh="x=8", name="key").arrays
    assert (key.dtype, key.nbytes) == ("key<fry>", 8)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(16, 64, rngs=rngs)
        init = nnx.with_partitioning(nnx.initializers.ones_init(), (None, "model"))
        self.out = nnx.Linear(64, 32, kernel_init=init, rngs=rngs)


def abstract_block() -> Block:
    with jax.sharding.use_abstract_mesh(AbstractMesh((1, 1), ("data", "model"))):
        return nnx.eval_shape(lambda: Block(nnx.Rngs(0)))


def test_a_module_of_nnx_has_the_paths_of_its_attributes_and_its_own_annotations() -> None:
    plan = nbdist.plan(abstract_block(), mesh="data=2,model=4", name="model")
    held = {one.path: (one.spec, one.device_bytes) for one in plan.arrays}
    assert held["model.out.kernel"] == (((), ("model",)), 64 * 8 * 4)
    assert held["model.up.kernel"] == (((), ()), 16 * 64 * 4)
    assert set(held) == {"model.up.kernel", "model.up.bias", "model.out.kernel", "model.out.bias"}


def test_specs_that_nnx_makes_of_a_state_fit_the_state_and_the_module() -> None:
    model = abstract_block()
    state = nnx.state(model)
    specs = nnx.get_partition_spec(state)
    for value in (state, model):
        plan = nbdist.plan(value, specs, mesh="data=2,model=4")
        assert not plan.unmatched and not plan.impossible
        kernel = next(one for one in plan.arrays if one.name == "out/kernel")
        assert kernel.spec == ((), ("model",))


def test_rules_are_matched_against_paths_with_slashes() -> None:
    plan = nbdist.plan(abstract_block(), [(r"^up/kernel$", P("data"))], mesh="data=2,model=4")
    assert [one.name for one in plan.arrays if one.asked] == ["up/kernel"]


def test_a_sharding_without_a_spec_is_none_that_can_be_planned() -> None:
    single = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with pytest.raises(OptionError, match="is not readable as specs"):
        nbdist.plan(struct(8), single, mesh="x=8")


def test_a_plan_starts_no_back_end_and_imports_no_framework() -> None:
    code = """
import sys, numpy as np, nbdist
nbdist.plan({"w": np.zeros((8, 8))}, [("w", ("x",))], topology="v5e-8", mesh="x=8").text()
assert not {"jax", "keras", "tensorflow", "flax"} & set(sys.modules), "a framework was imported"
import jax
tree = jax.eval_shape(lambda: jax.numpy.zeros((8, 8)))
plan = nbdist.plan(tree, jax.sharding.PartitionSpec("x"), topology="v5e-8", mesh="x=8")
assert plan.place is not None
plan._repr_mimebundle_()
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)
