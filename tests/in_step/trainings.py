"""Four trainings as cells, each with all its values on devices of all processes, from the same seed every time.

Each has `begin_…()` (anew, from its seed), `step_…()` (one step; answers the loss as a float, and changes nothing
unless it succeeds, where the framework allows that) and `leaves_…()` (all its arrays).
"""

from __future__ import annotations

COMMON = """
import collections, dataclasses, functools, threading, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
me = jax.process_index()
mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(AxisType.Auto,))
split, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())

def spread(host, sharding):
    host = np.asarray(host)
    return jax.make_array_from_callback(
        host.shape, sharding, lambda index: host[index], dtype=host.dtype
    )

def replicated(tree):
    arrays = lambda leaf: spread(leaf, whole) if isinstance(leaf, jax.Array) else leaf
    return jax.tree.map(arrays, tree)

small = spread(np.arange(64, dtype=np.float32), split)
large = spread(np.arange(1 << 21, dtype=np.float32) % 1024, split)
total = jax.jit(lambda w: w.sum())
square = jax.jit(lambda w: (w * w).sum())
# The devices of the first two processes: with two, all there are.
part = jax.sharding.Mesh(mesh.devices[: 2 * jax.local_device_count()], ("d",))
halves = NamedSharding(part, P("d"))
small_half, large_half = (spread(np.ones(n, np.float32), halves) for n in (64, 1 << 20))
half = jax.jit(lambda w: w.sum())
scaled = jax.jit(lambda w, by: (w / by).sum())
rng = np.random.default_rng(7)
inputs = rng.standard_normal((16, 8)).astype(np.float32)
targets = inputs.sum(axis=1, keepdims=True).astype(np.float32)
x, y = spread(inputs, split), spread(targets, split)
done = {}

def pieces(tree):
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path): [
            (str(shard.index), np.asarray(shard.data).tobytes()) for shard in leaf.addressable_shards
        ]
        for path, leaf in leaves
    }
"""

JAX = """
def loss_jax(params, x, y):
    return (((jnp.tanh(x @ params["w1"]) @ params["w2"]) - y) ** 2).mean()

@jax.jit
def update_jax(params, velocity, x, y):
    loss, slope = jax.value_and_grad(loss_jax)(params, x, y)
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, slope)
    return jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity), velocity, loss

def begin_jax():
    global params, velocity
    rng = np.random.default_rng(1)
    make = lambda *shape: spread(rng.standard_normal(shape).astype(np.float32), whole)
    params = {"w1": make(8, 16), "w2": make(16, 1)}
    velocity = jax.tree.map(lambda p: spread(np.zeros(p.shape, np.float32), whole), params)

def step_jax():
    global params, velocity
    new, moved, loss = update_jax(params, velocity, x, y)
    loss = float(loss)
    params, velocity = new, moved
    return loss

def leaves_jax():
    return params, velocity
"""

FLAX = """
import optax
from flax import nnx

@nnx.jit
def update_flax(model, optimizer, x, y):
    loss, slope = nnx.value_and_grad(lambda m: ((m(x) - y) ** 2).mean())(model)
    optimizer.update(model, slope)
    return loss

def begin_flax():
    global model, optimizer
    model = nnx.Sequential(
        nnx.Linear(8, 16, rngs=nnx.Rngs(2)), nnx.relu, nnx.Linear(16, 1, rngs=nnx.Rngs(3))
    )
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    nnx.update(model, replicated(nnx.state(model)))
    nnx.update(optimizer, replicated(nnx.state(optimizer)))

def step_flax():
    return float(update_flax(model, optimizer, x, y))

def leaves_flax():
    return nnx.to_pure_dict(nnx.state(model)), nnx.to_pure_dict(nnx.state(optimizer))
"""

EQUINOX = """
import equinox as eqx
import optax

@eqx.filter_jit
def update_equinox(net, state, x, y):
    def loss(net):
        return ((jax.vmap(net)(x) - y) ** 2).mean()
    value, slope = eqx.filter_value_and_grad(loss)(net)
    updates, state = descent.update(slope, state, net)
    return eqx.apply_updates(net, updates), state, value

descent = optax.adamw(1e-2)

def begin_equinox():
    global net, net_state
    net = replicated(eqx.nn.MLP(8, 1, 16, 1, key=jax.random.key(4)))
    net_state = replicated(descent.init(eqx.filter(net, eqx.is_array)))

def step_equinox():
    global net, net_state
    new, state, loss = update_equinox(net, net_state, x, y)
    loss = float(loss)
    net, net_state = new, state
    return loss

def leaves_equinox():
    return eqx.filter(net, eqx.is_array), eqx.filter(net_state, eqx.is_array)
"""

KERAS = """
import keras
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))

def begin_keras():
    global kmodel
    keras.utils.set_random_seed(5)
    kmodel = keras.Sequential([
        keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.1, seed=6), keras.layers.Dense(1),
    ])
    kmodel.compile(keras.optimizers.Adam(1e-2), "mse")
    kmodel.optimizer.build(kmodel.trainable_variables)

def step_keras():
    return float(kmodel.train_on_batch(inputs, targets))

def leaves_keras():
    variables = [*kmodel.variables, *kmodel.optimizer.variables]
    return [variable.value for variable in variables]
"""

TRAININGS = {"jax": JAX, "flax": FLAX, "equinox": EQUINOX, "keras": KERAS}

TRAIN = """
def begin(name):
    globals()[f"begin_{name}"]()
    done[name] = 0

def train(name, steps):
    losses = []
    for _ in range(steps):
        losses.append(globals()[f"step_{name}"]().hex())
        done[name] += 1
    return losses

def everything():
    found = {"small": small, "large": large, "x": x, "y": y}
    return pieces({**found, **{name: globals()[f"leaves_{name}"]() for name in done}})
"""
