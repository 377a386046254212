"""Small programs whose communication is known from theory, for any eight devices.

Each is made by a function of the devices, so that the tests on this machine's CPU devices and the rehearsals on
TPUs that nobody has compile the very same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Made = tuple[Any, tuple[Any, ...], Mesh]
"""What `jax.jit` made, its arguments without values, and the mesh."""

WIDTH, BATCH, LAYERS = 256, 64, 6

PROGRAMS: dict[str, Callable[[Sequence[Any]], Made]] = {}


def program(make: Callable[[Sequence[Any]], Made]) -> Callable[[Sequence[Any]], Made]:
    PROGRAMS[make.__name__] = make
    return make


def mesh_of(devices: Sequence[Any], **axes: int) -> Mesh:
    return Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes))


def abstract(mesh: Mesh, shape: tuple[int, ...], *spec: Any, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def update(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of plain gradient descent."""

    def step(weights: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, batch)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), value

    return step


@program
def data_parallel(devices: Sequence[Any]) -> Made:
    """One all-reduce of the gradient's bytes over `data`, and one of the loss."""
    mesh = mesh_of(devices, data=8)

    def loss(weight: Any, batch: Any) -> Any:
        hidden = batch @ weight
        return (hidden**2).sum()

    weight = abstract(mesh, (WIDTH, WIDTH))
    return jax.jit(update(loss)), (weight, abstract(mesh, (BATCH, WIDTH), "data")), mesh


@program
def fully_sharded(devices: Sequence[Any]) -> Made:
    """Weights in parts over `data`: gathered before use in every layer, their gradients reduced to the parts."""
    mesh = mesh_of(devices, data=8)

    def layer(hidden: Any, weight: Any) -> Any:
        whole = jax.lax.with_sharding_constraint(weight, NamedSharding(mesh, P()))
        hidden = jnp.tanh(hidden @ whole)
        return jax.lax.with_sharding_constraint(hidden, NamedSharding(mesh, P("data"))), None

    def loss(weights: Any, batch: Any) -> Any:
        hidden, _ = jax.lax.scan(layer, batch, weights)
        return (hidden**2).sum()

    weights = abstract(mesh, (LAYERS, WIDTH, WIDTH), None, "data")
    batch = abstract(mesh, (BATCH, WIDTH), "data")
    return jax.jit(update(loss), donate_argnums=0), (weights, batch), mesh


@program
def tensor_parallel(devices: Sequence[Any]) -> Made:
    """Two blocks as Megatron cuts them, forward: an all-reduce over `model` for attention and for the MLP."""
    mesh = mesh_of(devices, data=2, model=4)

    def forward(weights: Any, hidden: Any) -> Any:
        for block in weights:
            inner = jnp.tanh(hidden @ block["qkv"])
            hidden = jnp.tanh(inner @ block["out"])
            inner = jnp.tanh(hidden @ block["up"])
            hidden = jnp.tanh(inner @ block["down"])
        return hidden

    wide = abstract(mesh, (WIDTH, 4 * WIDTH), None, "model")
    narrow = abstract(mesh, (4 * WIDTH, WIDTH), "model", None)
    weights = [{"qkv": wide, "out": narrow, "up": wide, "down": narrow}] * 2
    hidden = abstract(mesh, (BATCH, WIDTH), "data")
    shardings = NamedSharding(mesh, P("data"))
    return jax.jit(forward, out_shardings=shardings), (weights, hidden), mesh


@program
def tensor_parallel_step(devices: Sequence[Any]) -> Made:
    """A scan over blocks in parts over `data` and `model`, with gradients."""
    mesh = mesh_of(devices, data=2, model=4)

    def block(hidden: Any, weights: Any) -> Any:
        inner = jax.nn.gelu(hidden @ weights["up"])
        return hidden + inner @ weights["down"], None

    def loss(weights: Any, batch: Any) -> Any:
        hidden, _ = jax.lax.scan(block, batch, weights)
        return (hidden**2).mean()

    weights = {
        "up": abstract(mesh, (LAYERS, WIDTH, 4 * WIDTH), None, None, "model"),
        "down": abstract(mesh, (LAYERS, 4 * WIDTH, WIDTH), None, "model", None),
    }
    batch = abstract(mesh, (BATCH, WIDTH), "data", None)
    return jax.jit(update(loss), donate_argnums=0), (weights, batch), mesh


@program
def overlapped(devices: Sequence[Any]) -> Made:
    """The same in parts over both axes, large enough that TPUs gather weights while they compute."""
    mesh = mesh_of(devices, data=4, model=2)
    wide = 4 * WIDTH

    def block(hidden: Any, weights: Any) -> Any:
        inner = jax.nn.gelu(hidden @ weights["up"])
        return hidden + inner @ weights["down"], None

    def loss(weights: Any, batch: Any) -> Any:
        hidden, _ = jax.lax.scan(block, batch, weights)
        return (hidden**2).mean()

    half = jnp.bfloat16
    weights = {
        "up": abstract(mesh, (LAYERS, wide, 4 * wide), None, "data", "model", dtype=half),
        "down": abstract(mesh, (LAYERS, 4 * wide, wide), None, "model", "data", dtype=half),
    }
    batch = abstract(mesh, (8 * BATCH, wide), "data", None, dtype=half)
    return jax.jit(update(loss), donate_argnums=0), (weights, batch), mesh


@program
def ring(devices: Sequence[Any]) -> Made:
    """Each device passes its keys on around the ring of `seq` in every turn, as ring attention does."""
    mesh = mesh_of(devices, seq=8)

    def attend(queries: Any, keys: Any) -> Any:
        def turn(carried: Any, _: Any) -> Any:
            keys, total = carried
            total = total + jnp.tanh(queries @ keys.T) @ keys
            keys = jax.lax.ppermute(keys, "seq", [(i, (i + 1) % 8) for i in range(8)])
            return (keys, total), None

        (_, total), _ = jax.lax.scan(turn, (keys, jnp.zeros_like(queries)), None, length=8)
        return total

    part = abstract(mesh, (BATCH, WIDTH), "seq")
    mapped = jax.shard_map(
        attend, mesh=mesh, in_specs=(P("seq"), P("seq")), out_specs=P("seq"), check_vma=False
    )
    return jax.jit(mapped), (part, part), mesh


@program
def pipeline(devices: Sequence[Any]) -> Made:
    """Four stages, each sends what it made to the next: a permutation that ends nowhere, eleven times."""
    mesh = mesh_of(devices, stage=4, data=2)
    turns = 8 + 3

    def stages(weight: Any, batch: Any) -> Any:
        def turn(hidden: Any, _: Any) -> Any:
            made = jnp.tanh(hidden @ weight[0])
            return jax.lax.ppermute(made, "stage", [(0, 1), (1, 2), (2, 3)]), None

        hidden, _ = jax.lax.scan(turn, batch, None, length=turns)
        return hidden[None]

    mapped = jax.shard_map(
        stages,
        mesh=mesh,
        in_specs=(P("stage"), P("data")),
        out_specs=P("stage", "data"),
        check_vma=False,
    )
    weight = abstract(mesh, (4, WIDTH, WIDTH), "stage")
    return jax.jit(mapped), (weight, abstract(mesh, (BATCH, WIDTH), "data")), mesh


@program
def experts(devices: Sequence[Any]) -> Made:
    """Tokens go to the expert that they belong to, and back: two all-to-alls over `expert`."""
    mesh = mesh_of(devices, data=2, expert=4)

    def dispatch(weight: Any, tokens: Any) -> Any:
        sent = jax.lax.all_to_all(tokens, "expert", split_axis=0, concat_axis=1, tiled=True)
        made = jnp.tanh(sent @ weight[0])
        return jax.lax.all_to_all(made, "expert", split_axis=1, concat_axis=0, tiled=True)

    mapped = jax.shard_map(
        dispatch,
        mesh=mesh,
        in_specs=(P("expert"), P(None, ("data", "expert"))),
        out_specs=P(None, ("data", "expert")),
    )
    weight = abstract(mesh, (4, WIDTH, WIDTH), "expert")
    tokens = abstract(mesh, (4, BATCH, WIDTH), None, ("data", "expert"))
    return jax.jit(mapped), (weight, tokens), mesh


@program
def nested(devices: Sequence[Any]) -> Made:
    """An all-reduce in a loop of five in a loop of three: fifteen a step."""
    mesh = mesh_of(devices, data=8)

    def body(batch: Any) -> Any:
        def inner(carried: Any, _: Any) -> Any:
            return jnp.tanh(jax.lax.psum(carried, "data")), None

        def outer(carried: Any, _: Any) -> Any:
            carried, _ = jax.lax.scan(inner, carried, None, length=5)
            return carried * 2, None

        return jax.lax.scan(outer, batch, None, length=3)[0]

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), "data"),), mesh


@program
def until(devices: Sequence[Any]) -> Made:
    """An all-reduce in a loop that ends when the data say so: how often is not known."""
    mesh = mesh_of(devices, data=8)

    def body(batch: Any) -> Any:
        def more(carried: Any) -> Any:
            return jax.lax.psum(carried.sum(), "data") < 1e6

        return jax.lax.while_loop(more, lambda carried: carried * 2, batch)

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), "data"),), mesh


@program
def branch(devices: Sequence[Any]) -> Made:
    """An all-reduce in one branch of a conditional."""
    mesh = mesh_of(devices, data=8)

    def body(chosen: Any, batch: Any) -> Any:
        return jax.lax.cond(
            chosen > 0, lambda b: jnp.tanh(jax.lax.psum(b, "data")), lambda b: b * 2, batch
        )

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=(P(), P("data")), out_specs=P("data"), check_vma=False
    )
    chosen = abstract(mesh, (), dtype=jnp.int32)
    return jax.jit(mapped), (chosen, abstract(mesh, (BATCH, WIDTH), "data")), mesh


@program
def both_axes(devices: Sequence[Any]) -> Made:
    """One all-reduce over both axes of the mesh together."""
    mesh = mesh_of(devices, data=2, model=4)
    mapped = jax.shard_map(
        lambda batch: jax.lax.psum(batch, ("data", "model")),
        mesh=mesh,
        in_specs=P(("data", "model")),
        out_specs=P(),
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), ("data", "model")),), mesh


@program
def scattered(devices: Sequence[Any]) -> Made:
    """A reduce-scatter and an all-gather, both asked for."""
    mesh = mesh_of(devices, data=4, model=2)

    def body(batch: Any) -> Any:
        part = jax.lax.psum_scatter(batch, "data", scatter_dimension=0, tiled=True)
        return jax.lax.all_gather(jnp.tanh(part), "data", axis=0, tiled=True)

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=P(None, "model"), out_specs=P(None, "model"), check_vma=False
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), None, "model"),), mesh


@program
def halves(devices: Sequence[Any]) -> Made:
    """An all-reduce among devices that are no axis of the mesh."""
    mesh = mesh_of(devices, data=8)

    def body(batch: Any) -> Any:
        groups = [[0, 1, 2, 5], [3, 4, 6, 7]]
        return jax.lax.psum(batch, "data", axis_index_groups=groups)

    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), "data"),), mesh


@program
def tree(devices: Sequence[Any]) -> Made:
    """Gradients of several arrays, which the compiler may reduce in one go."""
    mesh = mesh_of(devices, data=8)

    def loss(weights: Any, batch: Any) -> Any:
        hidden = batch
        for weight in weights:
            hidden = jnp.tanh(hidden @ weight)
        return (hidden**2).sum()

    weights = [abstract(mesh, (WIDTH, WIDTH)) for _ in range(4)]
    return jax.jit(update(loss)), (weights, abstract(mesh, (BATCH, WIDTH), "data")), mesh


@program
def resharded(devices: Sequence[Any]) -> Made:
    """A result whose layout is not the one that was computed: the compiler moves it, and nobody wrote that."""
    mesh = mesh_of(devices, data=2, model=4)

    def forward(weight: Any, batch: Any) -> Any:
        return jnp.tanh(batch @ weight)

    arguments = (
        abstract(mesh, (WIDTH, WIDTH), None, "model"),
        abstract(mesh, (BATCH, WIDTH), "data"),
    )
    return jax.jit(forward, out_shardings=NamedSharding(mesh, P())), arguments, mesh


@program
def batched(devices: Sequence[Any]) -> Made:
    """Products of many small matrices, as attention has them; each device has its own."""
    mesh = mesh_of(devices, data=8)

    def attend(queries: Any, keys: Any) -> Any:
        return jnp.einsum("bmn,bnk->bmk", jnp.einsum("bmk,bnk->bmn", queries, keys), keys)

    part = abstract(mesh, (BATCH, 16, 32), "data")
    return jax.jit(attend), (part, part), mesh


@program
def convolved(devices: Sequence[Any]) -> Made:
    """A convolution whose kernel reaches over the edges of the image."""
    mesh = mesh_of(devices, data=8)

    def convolve(images: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    images, kernel = abstract(mesh, (BATCH, 12, 10, 8), "data"), abstract(mesh, (3, 3, 8, 16))
    return jax.jit(convolve), (images, kernel), mesh


@program
def alone(devices: Sequence[Any]) -> Made:
    """Nothing communicates."""
    mesh = mesh_of(devices, data=8)
    return jax.jit(lambda batch: batch * 2), (abstract(mesh, (BATCH, WIDTH), "data"),), mesh


@program
def sequence_parallel(devices: Sequence[Any]) -> Made:
    """Megatron's MLP with its activations in parts between blocks: gathered before, reduced to the parts after."""
    mesh = mesh_of(devices, data=2, model=4)

    def mlp(up: Any, down: Any, hidden: Any) -> Any:
        whole = jax.lax.all_gather(hidden, "model", axis=0, tiled=True)
        made = jnp.tanh(jnp.tanh(whole @ up) @ down)
        return jax.lax.psum_scatter(made, "model", scatter_dimension=0, tiled=True)

    part = P(("data", "model"))
    mapped = jax.shard_map(
        mlp, mesh=mesh, in_specs=(P(None, "model"), P("model"), part), out_specs=part
    )
    up = abstract(mesh, (WIDTH, 4 * WIDTH), None, "model")
    down = abstract(mesh, (4 * WIDTH, WIDTH), "model")
    hidden = abstract(mesh, (BATCH, WIDTH), ("data", "model"))
    return jax.jit(mapped), (up, down, hidden), mesh


@program
def heads(devices: Sequence[Any]) -> Made:
    """Ulysses' attention: from parts of the sequence to parts of the heads, and back."""
    mesh = mesh_of(devices, data=2, seq=4)

    def attend(values: Any) -> Any:
        mine = jax.lax.all_to_all(values, "seq", split_axis=1, concat_axis=0, tiled=True)
        made = jnp.tanh(mine - mine.max(axis=0))
        return jax.lax.all_to_all(made, "seq", split_axis=0, concat_axis=1, tiled=True)

    part = P("seq", None, "data")
    mapped = jax.shard_map(attend, mesh=mesh, in_specs=part, out_specs=part)
    values = abstract(mesh, (BATCH, 8, WIDTH), "seq", None, "data")
    return jax.jit(mapped), (values,), mesh


@program
def vocabulary(devices: Sequence[Any]) -> Made:
    """A cross entropy over words in parts: their largest logit, then the sum of all."""
    mesh = mesh_of(devices, data=2, model=4)

    def entropy(logits: Any) -> Any:
        largest = jax.lax.pmax(logits.max(axis=-1), "model")
        total = jnp.exp(logits - largest[:, None]).sum(axis=-1)
        return jnp.log(jax.lax.psum(total, "model")) + largest

    mapped = jax.shard_map(
        entropy, mesh=mesh, in_specs=P("data", "model"), out_specs=P("data"), check_vma=False
    )
    return jax.jit(mapped), (abstract(mesh, (BATCH, 8 * WIDTH), "data", "model"),), mesh


@program
def table(devices: Sequence[Any]) -> Made:
    """A lookup in a table whose rows lie in parts: each device adds what it has, and zeros for the rest."""
    mesh = mesh_of(devices, data=2, model=4)

    def lookup(rows: Any, tokens: Any) -> Any:
        mine = tokens - jax.lax.axis_index("model") * len(rows)
        known = (mine >= 0) & (mine < len(rows))
        found = jnp.where(known[:, None], rows[jnp.clip(mine, 0, len(rows) - 1)], 0)
        return jax.lax.psum(found, "model")

    mapped = jax.shard_map(lookup, mesh=mesh, in_specs=(P("model"), P("data")), out_specs=P("data"))
    tokens = abstract(mesh, (BATCH,), "data", dtype=jnp.int32)
    return jax.jit(mapped), (abstract(mesh, (4 * BATCH, WIDTH), "model"), tokens), mesh


@program
def halo(devices: Sequence[Any]) -> Made:
    """Each device needs the rows next to its own: one from before, two from behind."""
    mesh = mesh_of(devices, data=8)

    def smooth(rows: Any) -> Any:
        on, back = [(i, i + 1) for i in range(7)], [(i + 1, i) for i in range(7)]
        before = jax.lax.ppermute(rows[-1:], "data", on)
        behind = jax.lax.ppermute(rows[:2], "data", back)
        wide = jnp.concatenate([before, rows, behind])
        return wide[:-3] + wide[1:-2] + wide[3:]

    mapped = jax.shard_map(smooth, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
    return jax.jit(mapped), (abstract(mesh, (BATCH, WIDTH), "data"),), mesh


@program
def cannon(devices: Sequence[Any]) -> Made:
    """Pieces of one array go around along `x`, those of another along `y`, in each of four turns."""
    mesh = mesh_of(devices, y=2, x=4)

    def multiply(left: Any, right: Any) -> Any:
        def turn(carried: Any, _: Any) -> Any:
            left, right, total = carried
            total = total + left * right
            left = jax.lax.ppermute(left, "x", [(i, (i + 1) % 4) for i in range(4)])
            right = jax.lax.ppermute(right, "y", [(0, 1), (1, 0)])
            return (left, right, total), None

        (_, _, total), _ = jax.lax.scan(turn, (left, right, jnp.zeros_like(left)), None, length=4)
        return total

    part = P("y", "x")
    mapped = jax.shard_map(
        multiply, mesh=mesh, in_specs=(part, part), out_specs=part, check_vma=False
    )
    piece = abstract(mesh, (BATCH, WIDTH), "y", "x")
    return jax.jit(mapped), (piece, piece), mesh


@program
def accumulated(devices: Sequence[Any]) -> Made:
    """Gradients of six small batches are added up on each device, and reduced once."""
    mesh = mesh_of(devices, data=8)

    def loss(weight: Any, rows: Any) -> Any:
        return (jnp.tanh(rows @ weight) ** 2).sum()

    def gradient(weight: Any, batches: Any) -> Any:
        def add(total: Any, rows: Any) -> Any:
            return total + jax.grad(loss)(weight, rows), None

        total, _ = jax.lax.scan(add, jnp.zeros_like(weight), batches)
        return jax.lax.psum(total, "data")

    mapped = jax.shard_map(
        gradient, mesh=mesh, in_specs=(P(), P(None, "data")), out_specs=P(), check_vma=False
    )
    batches = abstract(mesh, (LAYERS, BATCH, WIDTH), None, "data")
    return jax.jit(mapped), (abstract(mesh, (WIDTH, WIDTH)), batches), mesh
