"""A cell that keeps arrays, devices, meshes and shardings in containers of every kind, and asks what each has."""

from __future__ import annotations

KEPT = """
import contextvars, weakref
from functools import partial
from typing import NamedTuple

ways = {}

def way(function):
    ways[function.__name__] = function
    return function

def fresh(number, shape=(8,), dtype=np.float32):
    return spread((np.arange(np.prod(shape)).reshape(shape) + number).astype(dtype), split)

def closure_of(array):
    return lambda: array
in_closure = closure_of(fresh(1))

def in_defaults(array=fresh(2), *, other=fresh(3)):
    return array, other

class Slots:
    __slots__ = ("array",)
with_slots = Slots()
with_slots.array = fresh(4)

class Pair(NamedTuple):
    array: object
    inner: tuple
nested = Pair(fresh(5), (1, (fresh(6), [fresh(7), {"deep": (fresh(8),)}])))

bound = partial(lambda a, b, *, c: (a, b, c), fresh(9), c=fresh(10))
queue = collections.deque([fresh(11), (fresh(12),)], maxlen=3)
places = {split, whole}
by_device = {device: number for number, device in enumerate(jax.devices())}
frozen_places = frozenset([split, frozenset([whole])])

@dataclasses.dataclass(frozen=True)
class Frozen:
    array: object
    sharding: object
frozen = Frozen(fresh(13), split)

def generate(array):
    while True:
        yield array
running = generate(fresh(14))
next(running)

class Static:
    array = fresh(15)
    def method(self):
        return self.own
static = Static()
static.own = fresh(16)
its_method = static.method

objects = np.empty(2, dtype=object)
objects[0], objects[1] = fresh(17), split
cyclic = [fresh(18)]
cyclic.append(cyclic)

uncommitted = jnp.float32(3)

weak_scalar = jax.jit(lambda: 0.5)()
other_types = {
    name: spread(np.arange(8).astype(name), split)
    for name in ("bool", "int8", "uint32", "float16", "bfloat16", "complex64", "float8_e4m3fn")
}
empty = spread(np.zeros((0, 4), np.float32), whole)
local = jax.device_put(np.arange(5.0), jax.local_devices()[1])
read_by_numpy = np.asarray(fresh(19).addressable_data(0))
keys = jax.jit(lambda: jax.random.split(jax.random.key(3), 8), out_shardings=split)()
key = jax.jit(lambda: jax.random.key(4), out_shardings=whole)()
twice = also_twice = fresh(20)
given_away = fresh(21)
variable = contextvars.ContextVar("variable")
variable.set(fresh(30))
by_mesh = {mesh: 1}
taken = jax.jit(lambda a: a + 1, donate_argnums=0)(given_away)
two_axes = jax.make_mesh((jax.device_count() // 2, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
tiles = spread(np.arange(64.0).reshape(8, 8), NamedSharding(two_axes, P("a", "b")))
by_row = spread(np.arange(64.0).reshape(8, 8), NamedSharding(two_axes, P(("b", "a"))))
spread_out = jax.jit(lambda a: a * 2, out_shardings=split)
gathered = jax.jit(lambda a: a + 0, out_shardings=whole)
mapped = jax.jit(jax.shard_map(
    lambda a: jax.lax.psum(a.sum(), "d"), mesh=mesh, in_specs=P("d"), out_specs=P()))
constrained = jax.jit(lambda a: jax.lax.with_sharding_constraint(a - 1, whole))
jax.set_mesh(mesh)

def everything_kept():
    return {
        "closure": in_closure(), "defaults": in_defaults(), "slots": with_slots.array,
        "nested": [a for a in jax.tree.leaves(nested) if isinstance(a, jax.Array)],
        "partial": bound(fresh(22)), "deque": list(queue),
        "frozen": frozen.array, "generator": next(running),
        "class": Static.array, "method": its_method(), "objects": objects[0], "cyclic": cyclic[0],
        "uncommitted": uncommitted, "weak": weak_scalar, "types": other_types, "empty": empty,
        "local": local, "keys": jax.random.key_data(keys), "key": jax.random.key_data(key),
        "variable": variable.get(), "twice": twice, "taken": taken, "tiles": tiles, "by_row": by_row,
        "computed": {
            "spread_out": spread_out(tiles), "gathered": gathered(fresh(23)),
            "mapped": mapped(fresh(24)), "constrained": constrained(tiles),
            "random": gathered(jax.random.normal(key, (8,))),
            "split keys": jax.vmap(jax.random.uniform)(keys),
            "with a scalar": fresh(25) * uncommitted * weak_scalar,
            "placed": jax.jit(lambda a: a, out_shardings=NamedSharding(jax.sharding.get_mesh(), P("d")))(
                in_closure()),
        },
    }

def facts():
    return {
        "same": twice is also_twice,
        "given away": given_away.is_deleted(),
        "weak": (weak_scalar.weak_type, uncommitted.weak_type),
        "dtypes": [str((uncommitted * weak_scalar).dtype), str((other_types["float16"] * weak_scalar).dtype)],
        "committed": (uncommitted._committed, weak_scalar._committed),
        "places": (split in places, whole in places, len(places)),
        "frozen places": (split in frozen_places, frozenset([whole]) in frozen_places),
        "devices": [by_device[device] for device in jax.devices()],
        "meshes": by_mesh[mesh],
        "order of devices": [device.id for device in by_device],
        "objects": objects[1] == split,
        "sharding": frozen.sharding == split,
        "context": jax.sharding.get_mesh() == mesh,
        "axes": str(jax.sharding.get_mesh().shape),
        "key": (str(keys.dtype), keys.shape, str(keys.sharding.spec)),
        "cyclic": cyclic[1] is cyclic,
        "queue": (queue.maxlen, len(queue)),
        "read by numpy": read_by_numpy.tolist(),
        "specs": [str(a.sharding.spec) for a in (tiles, by_row, empty, in_closure())],
    }
"""
