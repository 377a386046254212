"""Golden sessions that differ in what the processes do, and the tour's."""

from __future__ import annotations

from jax.sharding import PartitionSpec as P
from world import MB, TIME, World

from nbdist.contract.snapshot import Disagreement, Snapshot, Version
from nbdist.errors import Notice

RUNNING = {
    "state": "running",
    "cell": 12,
    "line": 4,
    "source": "loss = step(params, x)",
    "cell_seconds": 3.2,
    "line_seconds": 3.2,
}


def empty() -> dict:
    """Nothing reported yet: the processes come from the launch plan alone."""
    world = World(processes=4, devices_per_process=2)
    unknown = {"pid": None, "state": "starting", "rss_bytes": None, "silent_seconds": None}
    processes = tuple(world.process(process, **unknown) for process in range(4))
    snapshot = Snapshot(
        session="golden", sequence=1, time=TIME, state="starting", processes=processes
    )
    return {"snapshot": snapshot, "expected": []}


def _model(world: World, grid) -> list:
    sharded = P("data", "model")
    return [
        world.named("params.dense1.kernel", (512, 256), grid, sharded),
        world.named("params.dense2.kernel", (256, 256), grid, P(None, "model")),
        world.named("params.dense1.bias", (256,), grid, P("model")),
        world.named("opt.mu.dense1.kernel", (512, 256), grid, sharded),
        world.named("opt.nu.dense1.kernel", (512, 256), grid, sharded),
        world.named("embedding", (8192, 512), grid, P(None, None)),
        world.named("batch", (1024, 64), grid, P("data", None)),
    ]


def tour() -> dict:
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    running = {**RUNNING, "context_mesh": world.mesh(grid).id, "waiting": True}
    late = {**running, "cell_seconds": 3.1, "line_seconds": 3.1}
    return world.case(
        [grid],
        _model(world, grid),
        state="running",
        processes=(
            *(world.process(process, **running) for process in range(3)),
            world.process(3, **late),
        ),
        notices=(
            Notice(
                level="warn", title="embedding", text="is replicated on all 8 devices (16 MB each)"
            ),
        ),
    )


def failed() -> dict:
    """One process raised, one is lost, the others wait for them."""
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    waiting = {**RUNNING, "waiting": True}
    raised = {
        "state": "failed",
        "cell": 12,
        "line": 2,
        "source": "x = next(batches)",
        "error": "ValueError: empty batch",
    }
    lost = {"state": "lost", "error": "ended by signal 9 (SIGKILL)", "silent_seconds": 6.0}
    return world.case(
        [grid],
        _model(world, grid),
        state="recovering",
        processes=(
            world.process(0, **waiting),
            world.process(1, **raised),
            world.process(2, **waiting),
            world.process(3, **lost),
        ),
        notices=(
            Notice(
                level="bad",
                title="Process 1 raised, processes 0, 2 still in the cell.",
                text=(
                    "On process 1 (h1): ValueError: empty batch in line 2, x = next(batches). "
                    "Processes 0, 2 are in line 4, loss = step(params, x) for 3.2 s."
                ),
            ),
            Notice(
                level="bad",
                title="Process 3 is lost.",
                text="Process 3 on h2: ended by signal 9 (SIGKILL).",
            ),
        ),
    )


def out_of_step() -> dict:
    """After an interrupt: all are back, and their namespaces differ."""
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    other = world.grid([8], ["data"])
    mesh, flat = world.mesh(grid).id, world.mesh(other).id
    return world.case(
        [grid, other],
        [
            world.named("w", (512, 256), grid, P("data", "model"), processes=(0, 1, 3)),
            world.named("w", (512, 256), other, P("data"), processes=(2,)),
            world.named("x", (64,), grid, P("data"), processes=(0, 1)),
        ],
        state="out of step",
        processes=(
            world.process(0, context_mesh=mesh),
            world.process(1, context_mesh=mesh),
            world.process(2, context_mesh=flat),
            world.process(3),
        ),
        disagreements=(
            Disagreement(
                about="array w",
                versions=(
                    Version(processes=(0, 1, 3), value="f32[512, 256] P('data', 'model')"),
                    Version(processes=(2,), value="f32[512, 256] P('data', None)"),
                ),
            ),
            Disagreement(
                about="array x",
                versions=(
                    Version(processes=(0, 1), value="f32[64] P('data')"),
                    Version(processes=(2, 3), value="missing"),
                ),
            ),
            Disagreement(
                about="mesh in context",
                versions=(
                    Version(processes=(0, 1), value="data=4 × model=2"),
                    Version(processes=(2,), value="data=8"),
                    Version(processes=(3,), value="none"),
                ),
            ),
        ),
        notices=(
            Notice(
                level="bad",
                title="The collectives are out of step.",
                text="Collectives may hang or mix up values. Run %dist_init --restart.",
            ),
        ),
    )


def stuck() -> dict:
    """One process was interrupted and is not back; one is still compiling."""
    world = World(processes=4, devices_per_process=2)
    grid = world.grid([4, 2], ["data", "model"])
    compiling = {**RUNNING, "state": "compiling", "line": 2, "source": "y = jax.jit(f)(x)"}
    away = {**RUNNING, "state": "stuck", "cell_seconds": 24.5, "line_seconds": 21.0}
    return world.case(
        [grid],
        _model(world, grid),
        state="stuck",
        processes=(
            world.process(0),
            world.process(1, **compiling),
            world.process(2),
            world.process(3, **away, rss_bytes=2300 * MB),
        ),
        notices=(
            Notice(
                level="bad",
                title="Process 3 is stuck.",
                text=(
                    "Process 3 on h2 was interrupted and has not stopped; it is in line 4, loss = step(params, "
                    "x)."
                ),
            ),
        ),
    )


def long_names() -> dict:
    """Names that look alike when they are cut at either end."""
    world = World(processes=2, devices_per_process=2, processes_per_host=1)
    grid = world.grid([2, 2], ["data", "model"])
    parts = ["query", "key", "value", "output"]
    held = [
        world.named(
            f"{tree}['transformer']['encoder']['layers_{layer}']['self_attention']['{part}'].kernel",
            (64, 32),
            grid,
            P("data", "model"),
        )
        for tree in ("params", "optimizer_state.mu", "optimizer_state.nu")
        for layer in (0, 1, 10)
        for part in parts
    ]
    return world.case([grid], held)
