"""Trainings as cells: on as many processes as there are, with two devices each."""

from __future__ import annotations

MESH = """
import jax, jax.numpy as jnp, nbdist, numpy as np, optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.process_count(), 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
def put(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))
tx = optax.adam(1e-2)
"""

LINEAR = """
@jax.jit
def update(params, state, x):
    value, grads = jax.value_and_grad(lambda p: ((x @ p["w"]) ** 2).mean())(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, value
"""
"""After `MESH`: a step of one layer, on `params` with `w`, and `state`."""

LAYERS = """
@jax.jit
def step(weights, state, x):
    def loss(w):
        return ((jnp.tanh(x @ w["a"]) @ w["b"]) ** 2).mean()
    value, grads = jax.value_and_grad(loss)(weights)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(weights, updates), state, value
def train(steps):
    global weights, state, done
    losses = []
    for _ in range(steps):
        x = put(np.random.default_rng(done).normal(size=(6, weights["a"].shape[0])).astype("f4"), "data")
        weights, state, value = step(weights, state, x)
        losses.append(float(value))
        done += 1
    return losses
"""
"""After `MESH`: two layers `a` and `b` in `weights`, with `state`, trained from step `done` on."""
