"""How long a training step of a transformer takes to be rehearsed, beside JAX lowering and compiling it by hand.

python -m tests.bench.rehearse, in the environment of `make test-rehearse`; no TPU is needed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.bench.figures import seconds

TOPOLOGY, AXES = "v5e:16x16", {"data": 16, "model": 16}
LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 12, 4096, 32, 65536, 64, 1024
ROUNDS = 3

INTO, OUT = P(None, "data", "model"), P(None, "model", "data")
SPECS = {"query": INTO, "key": INTO, "value": INTO, "out": OUT, "up": INTO, "down": OUT}


def arguments(devices: Sequence[Any]) -> tuple[Any, Any, Mesh]:
    """Weights and tokens without values, and the mesh."""
    mesh = Mesh(np.array(devices).reshape(tuple(AXES.values())), tuple(AXES))

    def array(shape: tuple[int, ...], spec: P, dtype: Any = jnp.bfloat16) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    shapes = dict.fromkeys(SPECS, (WIDTH, WIDTH)) | {
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    params = {
        "embed": array((VOCABULARY, WIDTH), P("model", "data")),
        "layers": {name: array((LAYERS, *shapes[name]), SPECS[name]) for name in SPECS},
        "head": array((WIDTH, VOCABULARY), P("data", "model")),
    }
    return params, array((BATCH, LENGTH), P("data"), jnp.int32), mesh


def step_on(mesh: Mesh) -> Any:
    """A step of gradient descent; each call gives another function, which JAX has not traced before."""
    rows = NamedSharding(mesh, P("data"))

    def layer(hidden: Any, weights: Any) -> Any:
        query, key, value = (
            (hidden @ weights[name]).reshape(*hidden.shape[:2], HEADS, -1)
            for name in ("query", "key", "value")
        )
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + attended.reshape(hidden.shape) @ weights["out"]
        return hidden + jax.nn.gelu(hidden @ weights["up"]) @ weights["down"], None

    def loss(params: Any, tokens: Any) -> Any:
        hidden = jax.lax.with_sharding_constraint(params["embed"][tokens], rows)
        hidden, _ = jax.lax.scan(jax.checkpoint(layer), hidden, params["layers"])
        logits = jax.nn.log_softmax((hidden @ params["head"]).astype(jnp.float32))
        return -jnp.take_along_axis(logits, tokens[..., None], axis=-1).mean()

    def step(params: Any, tokens: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, gradients), value

    return jax.jit(step)


def main() -> None:
    """Prints one line."""
    os.environ["TPU_SKIP_MDS_QUERY"] = "1"  # libtpu would ask the network for the machine it is on
    jax.config.update("jax_platforms", "cpu")
    jax.devices()
    import nbdist

    by_hand, rehearsed, collectives = [], [], 0
    for _ in range(ROUNDS):
        # Nothing that was compiled before is taken.
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            pod = nbdist.rehearse(TOPOLOGY)
            params, tokens, mesh = arguments(pod.devices)
            # One after the other, so that what else the machine does disturbs both.
            step = step_on(mesh)
            by_hand.append(seconds(lambda f=step, a=(params, tokens): f.lower(*a).compile()))
            step = step_on(mesh)
            rehearsed.append(seconds(lambda f=step, a=(params, tokens), p=pod: p.compile(f, *a)))
            (program,) = pod.programs
            assert program.memory is not None
            collectives = len(program.collectives)
    took, floor = statistics.median(rehearsed), statistics.median(by_hand)
    print(
        f"rehearsal of a step of {LAYERS} layers on {TOPOLOGY}, {collectives} collectives: {took:.1f} s; JAX "
        f"lowers and compiles it in {floor:.1f} s ({took / floor:.2f} times)",
        flush=True,
    )


if __name__ == "__main__":
    main()
