"""Arrays survive the copy to host memory or disk, and the way back, in all that can be seen of them."""

import gc
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract.calls.stepping import NOT_SENT
from nbdist.engine.frameworks.jax.repair import anew
from nbdist.engine.frameworks.jax.repair.anew import (
    ArrayCopies,
    array_like,
    deleted,
    free_bytes,
    remade,
    save,
)
from nbdist.errors import RecoveryError

DTYPES = [
    *("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int32", "uint8"),
    *("uint32", "int4", "uint4", "bool", "complex64"),
]


def local():
    return {device.id: device for device in jax.local_devices()}


def bits(array):
    """The bytes of an array, so that NaN and -0.0 count as what they are."""
    return np.ascontiguousarray(np.asarray(array)).tobytes()


def there_and_back(array, folder, **options):
    """The array that stands for one after all of it was saved."""
    saved = save([array], folder=folder, **options)
    assert saved.reasons == []
    return remade(array, saved.pieces[0], array.sharding, local())


def assert_alike(new, old):
    assert new is not old
    assert (new.shape, new.dtype, new.sharding) == (old.shape, old.dtype, old.sharding)
    assert (new.weak_type, new.committed) == (old.weak_type, old.committed)
    assert new.aval == old.aval
    assert [bits(s.data) for s in new.addressable_shards] == [
        bits(s.data) for s in old.addressable_shards
    ]


@pytest.mark.parametrize("room_bytes", [None, 0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_every_dtype_survive_in_memory_and_on_disk(mesh, tmp_path, dtype, room_bytes):
    values = np.arange(16).reshape(8, 2) % 7
    x = jax.device_put(jnp.asarray(values).astype(dtype), NamedSharding(mesh, P("data", "model")))
    new = there_and_back(x, tmp_path, room_bytes=room_bytes)
    assert_alike(new, x)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "complex128"])
def test_values_of_64_bits_survive_where_jax_makes_none_by_itself(tmp_path, dtype):
    with jax.enable_x64(True):
        x = jnp.asarray(np.array([1, 2**40 + 1, 3]), dtype)
    assert not jax.config.jax_enable_x64
    new = there_and_back(x, tmp_path)
    assert new.dtype == dtype
    assert_alike(new, x)


@pytest.mark.parametrize("room_bytes", [None, 0])
@pytest.mark.parametrize("shape", [(), (0,), (8, 0), (1,), (8, 3)])
def test_arrays_of_every_shape_survive(mesh, tmp_path, shape, room_bytes):
    spec = P("data") if shape[:1] == (8,) else P()
    x = jax.device_put(np.ones(shape, np.float32), NamedSharding(mesh, spec))
    assert_alike(there_and_back(x, tmp_path, room_bytes=room_bytes), x)


def test_not_a_number_and_negative_zero_survive(tmp_path):
    x = jnp.array([np.nan, -0.0, np.inf, -np.nan])
    assert_alike(there_and_back(x, tmp_path), x)


def test_a_weak_type_and_freedom_from_devices_survive(tmp_path):
    weak, free = jnp.asarray(2.0), jax.jit(lambda: jnp.ones(3))()
    assert weak.weak_type
    assert not weak.committed
    assert_alike(there_and_back(weak, tmp_path), weak)
    assert_alike(there_and_back(free, tmp_path), free)
    bound = jax.device_put(free, jax.devices()[3])
    assert bound.committed
    assert_alike(there_and_back(bound, tmp_path), bound)
    # What counts: it still goes along with arrays anywhere.
    elsewhere = jax.device_put(jnp.ones(3, jnp.bfloat16), jax.devices()[5])
    assert (there_and_back(weak, tmp_path) * elsewhere).dtype == jnp.bfloat16


def changed(*arguments, **options):
    raise TypeError("takes something else by now")


def test_where_jaxs_own_class_takes_something_else_arrays_are_made_all_the_same(monkeypatch):
    weak = jnp.asarray(2.0)
    buffer = jax.device_put(np.float32(2), weak.sharding)
    module = types.SimpleNamespace(ArrayImpl=changed)  # JAX itself still needs its own
    monkeypatch.setitem(sys.modules, "jax._src.array", module)
    new = array_like(weak, weak.sharding, [buffer])
    assert float(new) == 2.0
    assert new.committed
    assert not new.weak_type


def test_a_key_is_the_same_key(tmp_path):
    key = jax.random.key(7)
    base = key._base_array
    assert bits(there_and_back(base, tmp_path)) == bits(jax.random.key_data(jax.random.key(7)))


def test_each_piece_is_copied_once_whoever_holds_it(mesh, tmp_path):
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("data")))
    saved = save([x], folder=tmp_path)
    assert saved.nbytes == x.nbytes
    assert sorted(len(devices) for devices, _ in saved.pieces[0]) == [2, 2, 2, 2]
    every = sorted(device for devices, _ in saved.pieces[0] for device in devices)
    assert every == sorted(device.id for device in jax.devices())


def test_copies_do_not_share_memory_with_the_array(tmp_path):
    x = jnp.arange(1024.0)
    saved = save([x], folder=tmp_path)
    (_, piece), *_ = saved.pieces[0]
    assert not np.shares_memory(piece, np.asarray(x))
    x.delete()
    assert piece[-1] == 1023


def test_what_finds_no_room_goes_to_disk_array_by_array(mesh, tmp_path):
    arrays = [jnp.arange(100, dtype=jnp.float32) + k for k in range(3)]
    saved = save(arrays, folder=tmp_path, room_bytes=500)
    assert (saved.nbytes, saved.on_disk) == (400, 800)
    kinds = [type(pieces[0][1]) is np.memmap for pieces in saved.pieces]
    assert kinds == [False, True, True]
    for old, pieces in zip(arrays, saved.pieces, strict=True):
        assert_alike(remade(old, pieces, old.sharding, local()), old)


def test_nothing_is_left_on_disk_while_copies_lie_there(tmp_path):
    saved = save([jnp.ones(100)], folder=tmp_path, room_bytes=0)
    assert saved.on_disk == 400
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    def full(descriptor, offset, length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(anew.os, "posix_fallocate", full)
    x = jnp.ones(100)
    with pytest.raises(RecoveryError, match=r"400 B .*no room.* memory.* disk") as error:
        save([x], folder=tmp_path, room_bytes=0)
    assert str(tmp_path) in str(error.value)
    assert float(x.sum()) == 100


def test_deleted_arrays_are_left_out(tmp_path):
    gone, x = jnp.ones(3), jnp.ones(3)
    gone.delete()
    saved = save([gone, x], folder=tmp_path)
    assert saved.arrays == [x]
    assert saved.lost == []


CUT = (
    "UNKNOWN: Gloo all-reduce failed: [external/xla++third_party_ext+gloo/gloo/transport/tcp/pair.cc:547] "
    "Connection closed by peer [127.0.0.1]:5347"
)


@pytest.mark.parametrize(
    ("error", "reason"), [("no memory is left", "no memory is left"), (CUT, NOT_SENT)]
)
def test_an_array_whose_values_cannot_be_read_is_lost_with_the_reason(tmp_path, error, reason):
    class Broken:
        def is_deleted(self):
            return False

        def is_ready(self):
            return True

        def block_until_ready(self):
            raise RuntimeError(error)

    broken, x = Broken(), jnp.ones(3)
    saved = save([broken, x], folder=tmp_path)
    assert (saved.lost, saved.reasons) == ([broken], [reason])
    assert saved.arrays == [x]


def unreduced():
    """An array of partial sums: no device has its values."""
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        rows = jax.device_put(np.arange(16.0).reshape(8, 2), NamedSharding(mesh, P("d")))
        return jax.jit(
            lambda y: jax.lax.dot_general(
                y, y, (((0,), (0,)), ((), ())), out_sharding=P(None, None, unreduced={"d"})
            )
        )(rows)


def test_partial_sums_are_lost_not_taken_for_values(tmp_path):
    partial = unreduced()
    saved = save([partial], folder=tmp_path)
    assert saved.lost == [partial]
    gone = deleted(partial, partial.sharding, local())
    assert gone.is_deleted()


def test_copies_of_a_piece_that_differ_all_survive(mesh, tmp_path):
    """As `shard_map(check_vma=False)` makes them: the sharding says that all devices hold the same."""
    sharding = NamedSharding(mesh, P())
    parts = [jax.device_put(jnp.full(2, d.id, jnp.float32), d) for d in jax.devices()]
    x = jax.make_array_from_single_device_arrays((2,), sharding, parts)
    assert_alike(there_and_back(x, tmp_path), x)


def test_a_deleted_array_says_so_when_it_is_used(mesh):
    x = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("data")))
    gone = deleted(x, x.sharding, local())
    assert gone.is_deleted()
    assert (gone.shape, gone.dtype, gone.sharding) == (x.shape, x.dtype, x.sharding)
    with pytest.raises(RuntimeError, match="deleted"):
        gone + 1


def test_an_array_in_another_kind_of_memory_comes_back_there(mesh, tmp_path):
    kinds = {memory.kind for memory in jax.devices()[0].addressable_memories()}
    kind = next(k for k in sorted(kinds) if k != jax.devices()[0].default_memory().kind)
    x = jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("data"), memory_kind=kind))
    new = there_and_back(x, tmp_path)
    assert new.sharding.memory_kind == kind
    assert_alike(new, x)


def test_an_array_with_explicit_axes_keeps_its_type(tmp_path):
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("d")))
    assert jax.typeof(there_and_back(x, tmp_path)) == jax.typeof(x)


def test_an_array_of_which_this_process_has_no_piece_is_made_without_any(mesh, monkeypatch):
    """On one process each array has pieces here; what JAX is asked for is looked at instead."""
    x, asked = jax.device_put(jnp.ones(3, jnp.bfloat16), jax.devices()[0]), {}

    def make(shape, sharding, buffers, **options):
        asked.update(options, shape=shape, buffers=buffers)
        return x

    monkeypatch.setattr(jax, "make_array_from_single_device_arrays", make)
    assert array_like(x, x.sharding, []) is not None
    assert asked == {"shape": (3,), "buffers": [], "dtype": jnp.bfloat16}


def test_free_memory_is_a_number_of_bytes_that_this_machine_can_have():
    assert 0 < free_bytes() < sys.maxsize


def test_where_nothing_says_how_much_is_free_all_goes_to_memory(monkeypatch, tmp_path):
    def nowhere(self, *arguments, **options):
        raise FileNotFoundError(self)

    monkeypatch.setattr(anew.Path, "read_text", nowhere)
    assert free_bytes() == sys.maxsize
    assert save([jnp.ones(3)], folder=tmp_path).on_disk == 0


def test_a_limit_of_the_group_counts_where_it_is_lower(monkeypatch):
    texts = {
        "/proc/meminfo": "MemTotal: 10 kB\nMemAvailable:    2000000 kB\n",
        "/sys/fs/cgroup/memory.max": "1000000\n",
        "/sys/fs/cgroup/memory.current": "400000\n",
    }
    monkeypatch.setattr(anew.Path, "read_text", lambda self: texts[str(self)])
    assert free_bytes() == 600_000
    texts["/sys/fs/cgroup/memory.current"] = "1400000\n"
    assert free_bytes() == 0
    texts["/sys/fs/cgroup/memory.max"] = "max\n"
    assert free_bytes() == 2_048_000_000


def test_cleared_copies_hold_nothing(tmp_path):
    x = jnp.ones(3)
    saved = save([x], folder=tmp_path)
    saved.clear()
    assert (saved.arrays, saved.pieces, saved.lost, saved.reasons) == ([], [], [], [])
    assert not [r for r in gc.get_referrers(x) if isinstance(r, ArrayCopies)]
