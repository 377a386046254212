"""What happens to each operation of a rehearsal, on CPU devices, against what JAX does when it runs."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.errors import RehearsalError
from nbdist.rehearsal.values import DescribedArray
from tests.pod.rehearsed import rehearsed


def auto_mesh(devices: int):
    return jax.make_mesh(
        (devices,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices]
    )


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def training(mesh):
    """A step, its arguments, and operations outside of it, as a cell has them."""
    w = jax.device_put(
        jax.random.normal(jax.random.key(0), (64, 32)), NamedSharding(mesh, P(None, "model"))
    )
    x = jax.device_put(ones(16, 64), NamedSharding(mesh, P("data")))

    @jax.jit
    def step(w, x):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 1e-3 * gradient, loss

    w, loss = step(w, x)
    w, loss = step(w, x)
    return {
        "w": w,
        "loss": loss,
        "sum": w + 1,
        "product": x @ w,
        "turned": w.T,
        "mean": w.mean(axis=0),
        "part": x[0],
        "set": w.at[0].set(1),
        "joined": jnp.concatenate([w, w]),
        "uncommitted": jnp.arange(5),
        "gradient": jax.grad(lambda w: (w**2).sum())(w),
        "mapped": jax.vmap(lambda row: row * 2)(x),
        "scanned": jax.lax.scan(lambda c, row: (c + 1, row.sum()), 0.0, x)[1],
        "keys": jax.random.split(jax.random.key(1), 3),
    }


def laid_out(value):
    return (value.shape, value.dtype, value.aval.weak_type, value.committed)


def test_a_cell_gives_the_shapes_types_and_layouts_that_running_it_gives(mesh):
    real = training(mesh)
    with rehearsed():
        described = training(mesh)
    for name, value in real.items():
        assert isinstance(described[name], DescribedArray)
        if name != "keys":
            assert laid_out(described[name]) == laid_out(value), name
        assert described[name].dtype == value.dtype
        assert described[name].sharding.is_equivalent_to(value.sharding, value.ndim), name


def test_explicit_axes_give_the_types_that_running_gives():
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)

    def cell():
        x = jax.device_put(ones(8, 8), NamedSharding(mesh, P("a", "b")))
        return [x, x.T, x * 2, jax.jit(lambda x: x.sum(axis=0))(x)]

    real = [jax.typeof(one) for one in cell()]
    with rehearsed():
        assert [jax.typeof(one) for one in cell()] == real


def test_a_jitted_function_is_compiled_once_for_the_same_arguments_wherever_it_stands(mesh):
    with rehearsed() as rehearsal:
        x = jax.device_put(ones(8), NamedSharding(mesh, P("data")))
        for _ in range(3):
            step = jax.jit(lambda x: x * 2)
            step(x)
        step(x)
        assert len(rehearsal.shown) == 4
        assert rehearsal.shown[2] is rehearsal.shown[3]
        assert len(rehearsal.programs.all) == 1
        step(jax.device_put(ones(16), NamedSharding(mesh, P("data"))))
        step(jax.device_put(x, NamedSharding(mesh, P())))
        assert len(rehearsal.programs.all) == 3
        # Operations of JAX are no programs.
        jnp.where(x > 0, jnp.mean(x + 1), 0)
        assert len(rehearsal.programs.all) == 3


def two_steps():
    """A step whose arguments nobody has laid out, on its own results again; then on all devices."""
    step = jax.jit(lambda w, x: w - x.mean() * w)
    w = step(step(jnp.ones((8, 8)), jnp.ones(4)), jnp.ones(4))
    everywhere = NamedSharding(auto_mesh(8), P())
    return {"one": w, "all": jax.lax.with_sharding_constraint(w, everywhere)}


def test_results_lie_where_nobody_chose_as_their_arguments_do():
    ran = {name: (one.committed, len(one.sharding.device_set)) for name, one in two_steps().items()}
    with rehearsed() as rehearsal:
        found = two_steps()
    assert ran == {"one": (False, 1), "all": (True, 8)}
    assert {n: (one.committed, len(one.sharding.device_set)) for n, one in found.items()} == ran
    assert len(rehearsal.programs.all) == 1


def test_what_lies_on_a_device_that_was_chosen_is_not_moved_by_a_constraint():
    def moved():
        here = jax.device_put(ones(8), jax.devices()[1])
        return jax.lax.with_sharding_constraint(here, NamedSharding(auto_mesh(8), P("x")))

    for run in (contextlib.nullcontext, rehearsed):
        with run(), pytest.raises(ValueError, match="incompatible devices"):
            moved()


def test_nothing_runs_and_what_was_donated_is_gone(mesh):
    ran = []

    def called(x):
        return jax.pure_callback(ran.append, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with rehearsed():
        x = jax.device_put(ones(8), NamedSharding(mesh, P("data")))
        jax.jit(called)(x)
        y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
        assert (x.is_deleted(), y.is_deleted(), ran) == (True, False, [])
        with pytest.raises(RehearsalError, match=r"donated to <lambda> in line \d+ of"):
            x + 1


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_what_cannot_be_donated_stays(mesh):
    with rehearsed() as rehearsal:
        x = jax.device_put(ones(8), NamedSharding(mesh, P("data")))
        with pytest.raises(RehearsalError, match=r"float32\[8\] .* 2 times, .* 0, 1"):
            jax.jit(lambda a, b: a + b, donate_argnums=0)(x, x)
        assert rehearsal.programs.all == ()
        # As on a device: no result can take its memory.
        jax.jit(lambda x: x.sum(), donate_argnums=0)(x)
        x + 1


def test_devices_of_others_are_refused():
    others = jax.make_mesh((8,), ("x",))
    there = NamedSharding(others, P("x"))
    with rehearsed(devices=4):
        with pytest.raises(RehearsalError, match="4 devices that are none of"):
            jax.device_put(ones(8), there)
        with pytest.raises(RehearsalError, match="none of the rehearsal's"):
            jax.jit(lambda x: x, out_shardings=there)(ones(8))


def test_what_jax_refuses_is_refused_as_jax_does():
    with rehearsed():
        a, b = (
            jax.device_put(ones(8), NamedSharding(auto_mesh(count), P("x"))) for count in (8, 4)
        )
        with pytest.raises(ValueError, match="incompatible devices"):
            jax.jit(lambda a, b: a + b)(a, b)
        with pytest.raises(jax.errors.TracerBoolConversionError):
            jax.jit(lambda x: x if x.sum() > 0 else -x)(jnp.ones(8))


def test_shard_map_is_compiled_inside_jit_and_refused_outside(mesh):
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P()
    )
    with rehearsed() as rehearsal:
        x = jax.device_put(ones(8), NamedSharding(mesh, P("data")))
        assert jax.jit(mapped)(x).shape == (2,)
        assert [one.kind for one in rehearsal.shown[0].collectives] == ["all-reduce"]
        with pytest.raises(RehearsalError, match=r"outside jax.jit in line \d+ .*write jax.jit"):
            mapped(x)


def test_constants_are_arguments_and_what_jax_computes_while_it_traces_is_there(mesh):
    def step(x):
        with jax.ensure_compile_time_eval():
            size = int(jnp.arange(4).sum())
        return x @ w * size

    with rehearsed():
        w = jax.device_put(ones(8, 8), NamedSharding(mesh, P("model")))
        assert jax.jit(step)(jnp.ones((4, 8))).shape == (4, 8)
