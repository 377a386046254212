"""The picture of a program that the compiler refuses: what is known of it without one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.rehearsal.pod import Pod
from tests.pod.rehearsed import Rehearsed, rehearsed

SAID = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (17.44G) "
    "exceeds available HBM (15.75G)."
)


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """One for devices that have no room."""

    def compile_(lowered):
        raise jax.errors.JaxRuntimeError(SAID)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_)


@pytest.fixture
def pod():
    rehearsal = Rehearsed()
    return Pod(rehearsal.devices, rehearsal.programs)


def specs(found):
    return {array.path: array.sharding.spec for array in found.arrays}


def test_its_arguments_lie_on_their_mesh_as_they_were_given(pod, mesh):
    def of(*shape, spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))

    weights = {"w": of(16, 8, spec=P("data", "model"))}
    scale = jax.ShapeDtypeStruct((8,), jnp.float32)
    for _ in range(2):  # compiled, and kept
        program = pod.compile(
            lambda w, x, *, scale: x @ w["w"] * scale,
            weights,
            of(64, 16, spec=P()),
            scale=scale,
        )
        assert (program.fits, program.refusal.text) == (False, SAID)
        found = program.snapshot()
        assert specs(found) == {"args[0]['w']": (("data",), ("model",)), "args[1]": ((), ())}
        (shown,) = found.meshes
        assert [(axis.name, axis.size) for axis in shown.axes] == [("data", 4), ("model", 2)]
        assert found.program.mesh == shown.id
        assert {array.sharding.mesh for array in found.arrays} == {shown.id}
        assert found.state == "refused"
        (notice,) = found.notices
        assert notice.title == "Not compiled."
        assert "as they were given. " in notice.text and "Not shown: 1 argument" in notice.text
        pod = Pod(pod._devices, Rehearsed().programs)


def test_where_no_argument_has_a_sharding_that_is_said(pod):
    found = pod.compile(lambda x: x + 1, jax.ShapeDtypeStruct((8,), jnp.float32)).snapshot()
    assert (found.arrays, found.meshes, found.program.mesh) == ((), (), None)
    assert found.notices[0].text.endswith(": none was given a sharding.")
    found = pod.compile(lambda: jnp.ones(8)).snapshot()
    assert "has no arguments" in found.notices[0].text


def test_of_a_call_in_a_cell_the_arrays_and_the_function_say_it(mesh):
    with rehearsed() as rehearsal:
        x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("data")))
        jax.jit(lambda x, y: x + y)(x, jnp.ones(8))
        over = NamedSharding(mesh, P(None, "model"))
        jax.jit(lambda x: x * 2, in_shardings=over, out_shardings=over)(jnp.ones((8, 8)))
    first, second = (program.snapshot() for program in rehearsal.shown)
    assert specs(first) == {"args[0]": (("data",), ())}
    assert "Not shown: 1 argument" in first.notices[0].text
    assert specs(second) == {"args[0]": ((), ("model",))}
