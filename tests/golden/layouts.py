"""Golden sessions that differ in how arrays lie on devices."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import PartitionSpec as P
from world import World


def axes_1() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([8], ["data"])
    return world.case(
        [grid],
        [
            world.named("batch", (64, 16), grid, P("data")),
            world.named("columns", (16, 64), grid, P(None, "data")),
            world.named("scale", (), grid, P()),
        ],
    )


def axes_2() -> dict:
    world = World(processes=4, devices_per_process=2, platform="tpu")
    grid = world.grid([4, 2], ["data", "model"], types="Explicit")
    return world.case(
        [grid],
        [
            world.named("w", (512, 256), grid, P("data", "model")),
            world.named("rows", (512, 256), grid, P("data", None), dtype="bfloat16"),
            world.named("columns", (512, 256), grid, P(None, "model")),
            world.named("crossed", (512, 256), grid, P("model", "data")),
        ],
    )


def axes_3() -> dict:
    world = World(processes=3, devices_per_process=4, processes_per_host=1)
    grid = world.grid([3, 2, 2], ["replica", "data", "model"])
    return world.case(
        [grid],
        [
            world.named("kernel", (24, 16), grid, P("data", "model")),
            world.named("cube", (6, 8, 4), grid, P("replica", "data", "model")),
            world.named("stacked", (12, 8), grid, P("replica")),
        ],
    )


def axes_4() -> dict:
    world = World(processes=4, devices_per_process=4, processes_per_host=2)
    grid = world.grid([2, 2, 2, 2], ["pod", "data", "sequence", "model"])
    return world.case(
        [grid],
        [
            world.named("tokens", (8, 64), grid, P(("pod", "data"), "sequence"), dtype="int32"),
            world.named("heads", (4, 8, 16, 2), grid, P("data", "sequence", "model", "pod")),
            world.named("kernel", (64, 32), grid, P("model", None)),
        ],
    )


def axes_5() -> dict:
    world = World(processes=8, devices_per_process=4, processes_per_host=4)
    names = ["pod", "data", "expert", "sequence", "model"]
    grid = world.grid([2, 2, 2, 2, 2], names)
    return world.case(
        [grid],
        [
            world.named("experts", (4, 32, 8), grid, P("expert", "model", "data")),
            world.named("all", (32,), grid, P(tuple(names))),
            world.named("tensor", (2, 4, 6, 8, 10), grid, P(*names)),
        ],
    )


def several_meshes() -> dict:
    world = World(processes=4, devices_per_process=2)
    flat = world.grid([8], ["all"])
    square = world.grid([4, 2], ["data", "model"], types="Explicit")
    # The same axes over the same devices in another order: another mesh.
    turned = jax.sharding.Mesh(square.devices[::-1], ("data", "model"))
    return world.case(
        [flat, square, turned],
        [
            world.named("state.batch", (16, 4), flat, P("all")),
            world.named("state.kernel", (16, 4), square, P("data", "model")),
            world.named("state.turned", (16, 4), turned, P("data", "model")),
        ],
    )


def part_of_devices() -> dict:
    world = World(processes=4, devices_per_process=2)
    everything = world.grid([4, 2], ["data", "model"])
    half = world.grid([2, 2], ["stage", "model"], first=4)
    return world.case(
        [everything, half],
        [
            world.named("all", (8, 8), everything, P("data")),
            world.named("second_half", (8, 8), half, P("stage", "model"), processes=(2, 3)),
        ],
    )


def axes_on_one_dimension() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    return world.case(
        [grid],
        [
            world.named("data_first", (64, 3), grid, P(("data", "model"))),
            world.named("model_first", (64, 3), grid, P(("model", "data"))),
            world.named("second", (3, 64), grid, P(None, ("model", "data"))),
        ],
    )


def axes_of_size_1() -> dict:
    world = World(processes=2, devices_per_process=2, processes_per_host=1)
    grid = world.grid([1, 4, 1], ["pod", "data", "model"])
    return world.case(
        [grid],
        [
            world.named("kernel", (32, 8), grid, P("data", "model")),
            world.named("whole", (32, 8), grid, P("pod", "model")),
        ],
    )


def uneven() -> dict:
    world = World(processes=4, devices_per_process=2)
    flat = world.grid([8], ["all"])
    grid = world.grid([4, 2], ["data", "model"], types="Explicit")
    return world.case(
        [flat, grid],
        [
            # The last part is shorter; the last is empty; the last three are the same empty one.
            world.named("shorter", (15, 4), flat, P("all")),
            world.named("last_empty", (5, 6), grid, P("data")),
            world.named("many_empty", (5,), flat, P("all")),
            world.named("both", (6, 3), grid, P("data", "model")),
            world.named("two_axes", (11, 2), grid, P(("model", "data"))),
            world.named("no_elements", (0, 4), grid, P("data", "model")),
            world.named("sums", (5,), grid, P("data", unreduced={"model"})),
        ],
    )


def unreduced() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"], types="Explicit")
    cube = world.grid([2, 2, 2], ["a", "b", "c"], types="Explicit")
    return world.case(
        [grid, cube],
        [
            world.named("gradient", (16, 8), grid, P("model", unreduced={"data"})),
            world.named("loss", (), grid, P(unreduced={"data", "model"})),
            world.named("kernel", (16, 8), grid, P("data", "model")),
            world.named("mixed", (4, 4), cube, P("b", unreduced={"a"})),
            world.named("two", (4,), cube, P("b", unreduced={"c", "a"})),
        ],
    )


def memory_kinds() -> dict:
    world = World(processes=2, devices_per_process=2, processes_per_host=1)
    grid = world.grid([2, 2], ["data", "model"])
    spec = P("data", "model")
    return world.case(
        [grid],
        [
            world.named("on_device", (8, 8), grid, spec),
            world.named("pinned", (8, 8), grid, spec, memory_kind="pinned_host"),
            world.named("unpinned", (8, 8), grid, P(), memory_kind="unpinned_host"),
        ],
    )


def replicated() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    return world.case(
        [grid],
        [
            world.named("embedding", (8192, 512), grid, P()),
            world.named("bias", (512,), grid, P(None), dtype="bfloat16"),
        ],
    )


def single_device() -> dict:
    world = World(processes=4, devices_per_process=2)
    third = world.devices()[5]
    return world.case(
        [],
        [
            world.single("only_here", (16, 16), third),
            world.single("key", (), third, dtype="key<fry>"),
        ],
    )


def per_process() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    return world.case(
        [grid],
        [
            world.per_process("local_batch", (32, 8), dtype="int32"),
            world.per_process("rng", (), dtype="key<fry>"),
            world.named("kernel", (32, 8), grid, P("data")),
        ],
    )


def indexed() -> dict:
    world = World(processes=4, devices_per_process=2)
    # A sharding that is no mesh + spec of the session: its mesh is not among the reported ones.
    order = np.array(world.devices())[[3, 1, 7, 5, 0, 2, 4, 6]]
    hidden = jax.sharding.Mesh(order.reshape(2, 4), ("x", "y"))
    return world.case(
        [],
        [
            world.indexed("tiled", (8, 8), jax.sharding.NamedSharding(hidden, P("x", "y"))),
            world.indexed("copied", (8, 8), jax.sharding.NamedSharding(hidden, P("x"))),
        ],
    )


def pieces_256() -> dict:
    world = World(processes=32, devices_per_process=8, processes_per_host=4)
    grid = world.grid([16, 16], ["data", "model"])
    return world.case(
        [grid],
        [
            world.named("kernel", (1024, 4096), grid, P("data", "model"), dtype="bfloat16"),
            world.named("flat", (4096,), grid, P(("model", "data"))),
            world.named("bias", (4096,), grid, P("model")),
        ],
    )
