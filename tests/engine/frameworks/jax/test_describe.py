"""Every kind of sharding as the contract writes it, checked against JAX's own index maps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract import wire
from nbdist.contract.snapshot import Array, Axis, Indexed, SingleDevice
from nbdist.contract.snapshot import Mesh as MeshRecord
from nbdist.contract.snapshot import NamedSharding as Named
from nbdist.engine.frameworks.jax.describe import Meshes, describe_sharding
from nbdist.engine.frameworks.jax.observe import describe


def decoded(array):
    """An array and its meshes as they arrive."""
    described, meshes = describe(array)
    records = [wire.decode(MeshRecord, wire.encode(m)) for m in meshes]
    return wire.decode(Array, wire.encode(described)), records


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (P(), ((), ())),
        (P("data"), (("data",), ())),
        (P(None, "model"), ((), ("model",))),
        (P(("data", "model"), None), (("data", "model"), ())),
        (P("model", "data"), (("model",), ("data",))),
    ],
)
def test_a_spec_has_one_entry_for_each_dimension(mesh, spec, expected):
    array, (record,) = decoded(
        jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, spec))
    )
    assert array.sharding == Named(
        mesh=record.id, spec=expected, unreduced=(), memory_kind="device"
    )
    assert (array.shape, array.dtype, array.nbytes) == ((8, 8), "float32", 256)


def test_a_mesh_has_axes_with_their_types_and_its_devices_in_row_major_order():
    devices = np.array(jax.devices()).reshape(2, 4).T
    mesh = Mesh(devices, ("a", "b"), axis_types=(AxisType.Auto, AxisType.Explicit))
    _, (record,) = decoded(jax.device_put(np.ones(8), NamedSharding(mesh, P())))
    assert record.axes == (
        Axis(name="a", size=4, type="auto"),
        Axis(name="b", size=2, type="explicit"),
    )
    assert record.devices == tuple(f"0:{d.id}" for d in devices.flat)


def test_equal_meshes_have_one_id_and_others_another(mesh):
    meshes = Meshes()
    same = Mesh(mesh.devices, mesh.axis_names, axis_types=mesh.axis_types)
    turned = jax.make_mesh((2, 4), ("data", "model"))
    auto = jax.make_mesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)
    ids = [Meshes().describe(m).id for m in (mesh, same, turned, auto)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert meshes.describe(mesh) is meshes.describe(mesh)


def test_an_abstract_mesh_has_no_devices(mesh):
    record = Meshes().describe(mesh.abstract_mesh)
    assert [axis.size for axis in record.axes] == [4, 2]
    assert record.devices == ()


def test_partial_sums_name_their_axes_and_are_no_copies(mesh):
    @jax.jit
    def product(a, b):
        contract = (((1,), (0,)), ((), ()))
        return jax.lax.dot_general(a, b, contract, out_sharding=P(None, None, unreduced={"model"}))

    with jax.set_mesh(mesh):
        a = jax.device_put(np.ones((8, 4)), P(None, "model"))
        b = jax.device_put(np.ones((4, 8)), P("model", None))
        sums = product(a, b)
    array, _ = decoded(sums)
    assert array.sharding.unreduced == ("model",)
    assert array.sharding.spec == ((), ())


def test_an_array_on_one_device_names_it():
    device = jax.devices()[5]
    array, meshes = decoded(jax.device_put(np.ones(3), device))
    assert array.sharding == SingleDevice(device=f"0:{device.id}", memory_kind="device")
    assert meshes == []


def test_memory_kind_is_said(mesh):
    sharding = NamedSharding(mesh, P("data"), memory_kind="pinned_host")
    array, _ = decoded(jax.device_put(np.ones(8), sharding))
    assert array.sharding.memory_kind == "pinned_host"


class Halves(jax.sharding.Sharding):
    """A sharding JAX does not know: rows dealt to pairs of devices."""

    memory_kind = None
    device_set = property(lambda self: set(jax.devices()))

    def devices_indices_map(self, shape):
        half = shape[0] // 2
        return {
            d: (slice(None, half) if i % 2 else slice(half, None), slice(None))
            for i, d in enumerate(jax.devices())
        }


def test_any_other_sharding_is_its_index_map_grouped_by_piece():
    record = describe_sharding(Halves(), (8, 2), Meshes())
    keys = [f"0:{d.id}" for d in jax.devices()]
    assert wire.decode(Indexed, wire.encode(record)) == record
    assert {(piece.slices, piece.devices) for piece in record.pieces} == {
        (((4, 8), (0, 2)), tuple(keys[0::2])),
        (((0, 4), (0, 2)), tuple(keys[1::2])),
    }


def test_a_sharding_whose_index_map_is_refused_has_no_pieces(monkeypatch):
    def refuse(self, shape):
        raise NotImplementedError("not for this one")

    monkeypatch.setattr(Halves, "devices_indices_map", refuse)
    assert describe_sharding(Halves(), (8, 2), Meshes()).pieces == ()


def test_typed_random_keys_are_arrays_of_keys_with_the_bytes_of_their_bits(mesh):
    keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P("data")))
    array, _ = decoded(keys)
    assert (array.shape, array.dtype, array.nbytes) == ((8,), "key<fry>", 64)
    assert array.sharding.spec == (("data",),)


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "bool", "complex64", "float8_e4m3fn"])
def test_dtypes_go_by_jax_own_name(dtype):
    array, _ = decoded(jnp.ones((4, 2), dtype))
    assert array.dtype == dtype
    assert array.nbytes == 8 * jnp.dtype(dtype).itemsize
