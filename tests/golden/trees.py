"""Golden sessions whose arrays make trees."""

from __future__ import annotations

from jax.sharding import PartitionSpec as P
from world import World

from nbdist.contract.snapshot import Array, Mesh
from nbdist.view.tree import Branch, grow, steps, whole_why


def transformer() -> dict:
    """Layers that are alike, some that are not, a stage on other devices, keys with dots and brackets."""
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    stages = [world.grid([4], ["data"], first=first) for first in (0, 4)]
    layers = [
        array
        for tree in ("model", "opt.mu")
        for number in range(12)
        for array in (
            world.named(f"{tree}.blocks[{number}].qkv.kernel", (256, 768), grid, P(None, "model")),
            world.named(
                f"{tree}.blocks[{number}].mlp.kernel", (256, 1024), grid, P("data", "model")
            ),
            world.named(f"{tree}.blocks[{number}].mlp.bias", (1024,), grid, P()),
        )
    ]
    return world.case(
        [grid, *stages],
        [
            world.named("model.embed.kernel", (8192, 256), grid, P(None, None)),
            *layers,
            world.named("model.blocks[12].qkv.kernel", (256, 768), grid, P(None, None)),
            world.named("model.blocks[12].mlp.kernel", (256, 1024), grid, P("data", "model")),
            world.named("model.head.kernel", (256, 8192), grid, P(None, "model")),
            *(
                world.named(f"pipeline[{number}].{name}", (64, 64), stage, P("data"))
                for number, stage in enumerate(stages)
                for name in ("w", "v")
            ),
            world.named("batches['a.b']['c]d'].x", (64, 16), grid, P("data")),
            world.named("batches['a.b']['c]d'].y", (64,), grid, P("data"), processes=(0, 1)),
            world.named("batches['a.b']['c]d'].y", (32,), grid, P("data"), processes=(2, 3)),
            world.per_process("batches[1]", (16,)),
            world.single("here.only", (8, 8), world.devices()[3]),
            world.named("here.too.far", (8, 8), grid, P()),
            world.named("w", (512, 512), grid, P()),
            world.named("w.ema", (512, 512), grid, P("data")),
            world.named("loss", (), grid, P()),
        ],
    )


def trees(arrays: list[Array], meshes: dict[str, Mesh]) -> list[dict]:
    """The tree of each name, as `%dist_shards` makes it of the same arrays."""
    roots = dict.fromkeys(steps(array.path)[0] for array in arrays)
    return [
        _plain(grow(root, [a for a in arrays if steps(a.path)[0] == root], meshes, {}), meshes)
        for root in roots
    ]


def _plain(branch: Branch, meshes: dict[str, Mesh]) -> dict:
    return {
        "name": branch.name,
        "path": branch.path,
        "alike": branch.alike,
        "count": len(branch.leaves),
        "nbytes": branch.nbytes,
        "device_bytes": branch.device_bytes,
        "arrays": [[array.path, whole_why(array, meshes)] for array in branch.arrays],
        "branches": [_plain(below, meshes) for below in branch.branches],
    }
