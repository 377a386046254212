"""Devices and the bytes on them; nothing is kept, nothing is started."""

import gc
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract import wire
from nbdist.contract.snapshot import Device
from nbdist.engine.frameworks import frameworks
from nbdist.engine.frameworks.jax import observe
from nbdist.engine.frameworks.jax import observe as observe_module
from nbdist.engine.frameworks.jax.describe import backend, ready
from nbdist.engine.frameworks.jax.observe import JaxObserver, describe, devices
from nbdist.engine.probe.observer import NamespaceLook, Seen
from nbdist.engine.probe.walk import Bounds

NOTHING = Seen((), (), (), 0, (), ())


def look_with(**bounds):
    return NamespaceLook(
        frameworks(), main_thread=threading.get_ident(), process_id=0, bounds=Bounds(**bounds)
    )


@pytest.fixture
def look():
    look = look_with()
    yield look
    look.unhook()


def live():
    """Bytes on each device, by its id."""
    gc.collect()
    return {d.id: d.live_bytes for d in devices(backend())}


def grown(before):
    return {i: now - before[i] for i, now in live().items()}


def test_devices_are_those_of_this_process():
    found = devices(backend())
    assert [wire.decode(Device, wire.encode(one)) for one in found] == list(found)
    assert [d.key for d in found] == [f"0:{d.id}" for d in jax.local_devices()]
    first = found[0]
    assert (first.platform, first.kind, first.coords, first.memory) == ("cpu", "cpu", None, None)


def test_memory_statistics_and_coordinates_are_passed_on_where_the_platform_has_them():
    class Chip:
        id, process_index, platform, device_kind, coords = 3, 1, "tpu", "TPU v5 lite", (1, 0, 2)

        def memory_stats(self):
            return {"bytes_in_use": 5, "bytes_limit": 9, "num_allocs": 1}

    class Shy(Chip):
        def memory_stats(self):
            raise jax.errors.JaxRuntimeError("UNIMPLEMENTED")

    class Client:
        def local_devices(self):
            return [Chip(), Shy()]

    with_stats, without = devices(Client())
    assert with_stats.coords == (1, 0, 2)
    assert with_stats.memory.bytes_in_use == 5
    assert with_stats.memory.peak_bytes_in_use is None
    assert without.memory is None
    # This client keeps no profile.
    assert with_stats.live_bytes is None


def test_a_profile_with_other_labels_gives_no_figure(monkeypatch):
    monkeypatch.setattr(observe_module, "live_bytes", lambda client: {"TFRT_CPU_0": 5})
    assert {d.live_bytes for d in devices(backend())} == {None}


def test_each_device_counts_its_own_pieces(mesh):
    before = live()
    kept = jax.device_put(np.ones((8, 2), np.float32), NamedSharding(mesh, P("data", "model")))
    single = jax.device_put(np.ones(100, np.float32), jax.devices()[3])
    assert grown(before) == {d.id: 8 + (400 if d.id == 3 else 0) for d in jax.devices()}
    del kept, single
    assert set(grown(before).values()) == {0}


def test_touching_addressable_shards_changes_no_figure(mesh):
    array = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data")))
    before, arrays = live(), len(jax.live_arrays())
    shards = [shard.data for shard in array.addressable_shards]
    assert len(jax.live_arrays()) == arrays + 8
    assert live() == before
    again = jax.make_array_from_single_device_arrays(array.shape, array.sharding, shards)
    assert live() == before
    del array, again
    # The shards still hold the buffers.
    assert live() == before


def test_del_and_donation_free_memory_between_looks(look):
    update = jax.jit(lambda x: x + 1, donate_argnums=0)
    namespace = {"w": jnp.ones(1000), "inner": {"b": [jnp.ones(500)]}}
    before = live()[0]
    watched = weakref.ref(namespace["w"])
    assert {a.path for a in look.now(namespace).arrays} == {"w", "inner['b'][0]"}
    old = namespace["w"]
    namespace["w"] = update(old)
    assert old.is_deleted()
    del old
    assert watched() is None
    assert live()[0] == before
    watched = weakref.ref(namespace["inner"]["b"][0])
    look.now(namespace)
    del namespace["inner"]
    assert watched() is None
    assert before - live()[0] == 2000
    assert [a.path for a in look.now(namespace).arrays] == ["w"]


def test_deleted_arrays_are_left_out(look):
    namespace = {"w": jnp.ones(3), "b": jnp.ones(3)}
    look.now(namespace)
    namespace["w"].delete()
    assert [a.path for a in look.now(namespace).arrays] == ["b"]


def test_looking_makes_no_array(look, mesh):
    namespace = {"w": jax.device_put(np.ones((8, 8)), NamedSharding(mesh, P("data")))}
    before = len(jax.live_arrays())
    look.now(namespace)
    look.now(namespace)
    assert len(jax.live_arrays()) == before


def test_what_is_unchanged_is_the_same_object_in_the_next_look(look, mesh):
    sharding = NamedSharding(mesh, P("data"))
    namespace = {"w": jax.device_put(np.ones((8, 8)), sharding), "b": jnp.ones(3)}
    first = look.now(namespace)
    namespace["w"] = jax.device_put(np.zeros((8, 8)), sharding)
    namespace["b"] = jnp.ones(4)
    second = look.now(namespace)
    assert second.arrays[0] is first.arrays[0]
    assert second.arrays[1] != first.arrays[1]


def test_a_mesh_is_listed_once_also_when_no_array_is_on_it(look, mesh):
    other = jax.make_mesh((8,), ("x",))
    array = jax.device_put(np.ones((8, 8)), NamedSharding(mesh, P("data")))
    with jax.set_mesh(other):
        look.note()
        seen = look.now({"w": array, "mesh": mesh})
    assert [len(m.axes) for m in sorted(seen.meshes, key=lambda m: len(m.axes))] == [1, 2]


def test_arrays_beyond_the_bound_are_counted(mesh):
    seen = look_with(arrays=2).now({f"w{i}": jnp.ones(2) for i in range(5)})
    assert (len(seen.arrays), seen.arrays_omitted) == (2, 3)


def test_before_a_back_end_is_up_there_is_nothing_to_see(look, monkeypatch):
    monkeypatch.setattr("jax._src.xla_bridge._default_backend", None)
    assert not ready()
    assert look.now({"w": 1}) == NOTHING


def test_without_jax_nothing_is_an_array(monkeypatch):
    observer = JaxObserver(threading.get_ident())
    assert (observer.array_classes(), observer.mesh_classes()) == (
        (jax.Array,),
        (jax.sharding.Mesh,),
    )
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.delitem(sys.modules, "jax.sharding")
    assert (observer.array_classes(), observer.mesh_classes()) == ((), ())


def test_a_memory_profile_is_read_packed_or_not():
    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    names = [b"", b"kind", b"buffer", b"device", b"cpu:1", b"executable"]
    strings = b"".join(field(6, s) for s in names)
    labels = field(3, b"\x08\x01\x10\x02") + field(3, b"\x08\x03\x10\x04")
    packed = field(2, field(2, b"\x01\xac\x02") + labels)
    single = field(2, b"\x10\x01\x10\x05" + labels)
    kind_and_device = field(3, b"\x08\x01\x10\x05") + field(3, b"\x08\x03\x10\x04")
    code = field(2, field(2, b"\x01\x63") + kind_and_device)
    assert observe.bytes_by_device(packed + single + code + strings) == {"cpu:1": 305}
    with pytest.raises(ValueError, match="wire type 5"):
        observe.bytes_by_device(b"\x0d\x00\x00\x00\x00")


def test_one_array_is_described_by_itself(mesh):
    array = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data")))
    described, meshes = describe(array)
    assert described.path == ""
    assert described.nbytes == 256
    assert [m.id for m in meshes] == [described.sharding.mesh]
