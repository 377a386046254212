"""Golden sessions in which Keras or TensorFlow spreads data and variables."""

from __future__ import annotations

from jax.sharding import PartitionSpec as P
from msgspec import structs
from world import Held, World

from nbdist.contract.snapshot import (
    DeviceBytes,
    Disagreement,
    Distribution,
    LayoutRule,
    Metric,
    Model,
    NamedSharding,
    Progress,
    Variable,
    Version,
)
from nbdist.errors import Notice

TRAINING = {
    "state": "running",
    "cell": 9,
    "line": 6,
    "source": "model.fit(x, y, batch_size=32, epochs=5)",
    "cell_seconds": 14.2,
    "line_seconds": 12.9,
}
RULES = (
    LayoutRule(pattern=".*dense.*/kernel", axes=(None, "model")),
    LayoutRule(pattern=".*dense.*/bias", axes=("model",)),
    LayoutRule(pattern=".*attention.*/query/kernel", axes=(None, "model", None)),
)
LAYERS = (
    ("embedding/embeddings", "layers[0].embeddings", (8192, 512), P(None, None), None),
    ("dense/kernel", "layers[1].kernel", (512, 2048), P(None, "model"), RULES[0]),
    ("dense/bias", "layers[1].bias", (2048,), P("model"), RULES[1]),
    ("normalization/mean", "layers[2].mean", (2048,), P(None), None),
    ("dense_1/kernel", "layers[3].kernel", (2048, 1000), P(None, "model"), RULES[0]),
    ("dense_1/bias", "layers[3].bias", (1000,), P("model"), RULES[1]),
)
"""Of each variable: path, place in the model, shape, spec, the rule that matched."""


def _epoch(number: int, loss: float, accuracy: float) -> Progress:
    return Progress(
        what=f"fit, epoch {number} of 5",
        metrics=(Metric(name="loss", value=loss), Metric(name="accuracy", value=accuracy)),
    )


def _variable(held: Held, path: str, rule: LayoutRule | None, group: str) -> Variable:
    array = held.array
    spec = array.sharding.spec if isinstance(array.sharding, NamedSharding) else None
    largest = max(_elements(slices) for slices in held.expected["slices"].values()) * (
        array.nbytes // _elements([(0, size) for size in array.shape])
    )
    return Variable(
        path=path,
        array=array.path,
        group=group,
        shape=array.shape,
        dtype=array.dtype,
        nbytes=array.nbytes,
        rule=rule and rule.pattern,
        axes=rule and rule.axes,
        spec=spec,
        device_bytes=largest,
        missed=rule is None and largest == array.nbytes and largest >= 1 << 20,
    )


def _elements(slices) -> int:
    count = 1
    for start, stop in slices:
        count *= stop - start
    return count


def _sequential(world: World, grid, path: str = "model") -> tuple[list[Held], tuple[Variable, ...]]:
    """The arrays of a small language model and its optimizer, and the same as variables."""
    held, variables = [], []
    for name, place, shape, spec, rule in LAYERS:
        group = "non-trainable" if name.startswith("normalization") else "trainable"
        held.append(world.named(f"{path}.{place}", shape, grid, spec))
        variables.append(_variable(held[-1], f"sequential/{name}", rule, group))
    for slot in ("momentum", "velocity"):
        for number, (name, _, shape, spec, rule) in enumerate(LAYERS):
            if variables[number].group == "trainable":
                array = f"{path}.optimizer.variables[{2 + len(held) - len(LAYERS)}]"
                held.append(world.named(array, shape, grid, spec))
                slot_path = f"adam/sequential_{name.replace('/', '_')}_{slot}"
                variables.append(_variable(held[-1], slot_path, rule, "optimizer"))
    return held, tuple(variables)


def _totals(world: World, variables: tuple[Variable, ...]) -> tuple[DeviceBytes, ...]:
    keys = tuple(world.key(device) for device in world.devices())
    return (DeviceBytes(devices=keys, nbytes=sum(one.device_bytes for one in variables)),)


def keras_model() -> dict:
    """A layout map that misses the embedding and has a rule for layers that are not there."""
    world = World(processes=2, devices_per_process=2, processes_per_host=1)
    grid = world.grid([2, 2], ["batch", "model"])
    held, variables = _sequential(world, grid)
    held.append(world.named("x", (1024, 64), grid, P("batch", None)))
    running = {**TRAINING, "waiting": True, "progress": _epoch(2, 0.3124, 0.9107)}
    distribution = Distribution(
        noun="distribution",
        kind="ModelParallel",
        mesh=world.mesh(grid).id,
        batch_axis="batch",
        auto_shard=False,
        rules=RULES,
        global_batch=64,
    )
    missed = [one.path for one in variables if one.missed]
    return world.case(
        [grid],
        held,
        state="running",
        processes=(world.process(0, **running), world.process(1, **running)),
        distributions=(distribution,),
        models=(
            Model(
                path="model",
                kind="Sequential",
                variables=variables,
                variables_omitted=0,
                unmatched=(RULES[2].pattern,),
                totals=_totals(world, variables),
            ),
        ),
        notices=(
            Notice(
                level="warn",
                title=f"Rule '{RULES[2].pattern}'",
                text="of the layout map matches no variable of model",
            ),
            Notice(
                level="warn",
                title=missed[0],
                text=(
                    "is replicated on all 4 devices (16 MB each): no rule of the layout map matched it, "
                    f"nor {len(missed) - 1} other large variables"
                ),
            ),
        ),
    )


def keras_disagree() -> dict:
    """One process has set another distribution, so its model lies otherwise."""
    world = World(processes=4, devices_per_process=1)
    flat, grid = world.grid([4], ["batch"]), world.grid([2, 2], ["batch", "model"])
    parallel = Distribution(
        noun="distribution",
        kind="DataParallel",
        mesh=world.mesh(flat).id,
        batch_axis="batch",
        auto_shard=True,
        processes=(0, 1, 3),
    )
    other = structs.replace(
        parallel, kind="ModelParallel", mesh=world.mesh(grid).id, rules=RULES[:2], processes=(2,)
    )
    whole = world.named("model.layers[0].kernel", (512, 256), flat, P(), processes=(0, 1, 3))
    split = world.named(
        "model.layers[0].kernel", (512, 256), grid, P(None, "model"), processes=(2,)
    )
    path = "sequential/dense/kernel"
    variables = (
        _variable(whole, path, None, "trainable"),
        _variable(split, path, RULES[0], "trainable"),
    )
    models = tuple(
        Model(
            path="model",
            kind="Sequential",
            variables=(variable,),
            variables_omitted=0,
            unmatched=(RULES[1].pattern,) if variable.rule else (),
            totals=(
                DeviceBytes(
                    devices=tuple(world.key(world.devices()[n]) for n in processes),
                    nbytes=variable.device_bytes,
                ),
            ),
            processes=processes,
        )
        for variable, processes in zip(variables, ((0, 1, 3), (2,)), strict=True)
    )
    return world.case(
        [flat, grid],
        [whole, split],
        distributions=(parallel, other),
        models=models,
        disagreements=(
            Disagreement(
                about="distribution",
                versions=(
                    Version(processes=(0, 1, 3), value="DataParallel on mesh batch=4"),
                    Version(processes=(2,), value="ModelParallel on mesh batch=2 × model=2"),
                ),
            ),
            Disagreement(
                about="model model",
                versions=(
                    Version(processes=(0, 1, 3), value=f"{path} f32[512, 256] P(None, None)"),
                    Version(
                        processes=(2,),
                        value=f"{path} f32[512, 256] P(None, 'model'), asked for (None, 'model')",
                    ),
                ),
            ),
        ),
    )


def tensorflow() -> dict:
    """Two workers of two replicas each, the first of them chief, and an evaluator beside them."""
    world = World(processes=3, devices_per_process=2, processes_per_host=2)
    grid = world.grid([4], ["replica"])
    workers = (0, 1)
    held = [
        world.named("model.layers[0].kernel", (784, 128), grid, P(), processes=workers),
        world.named("model.layers[0].bias", (128,), grid, P(), processes=workers),
        world.named("model.layers[1].kernel", (128, 10), grid, P(), processes=workers),
        world.single("model.layers[0].kernel", (784, 128), world.devices()[4]),
        world.single("model.layers[0].bias", (128,), world.devices()[4]),
        world.single("model.layers[1].kernel", (128, 10), world.devices()[4]),
    ]
    names = ("dense/kernel", "dense/bias", "dense_1/kernel")
    strategy = Distribution(
        noun="strategy",
        kind="MultiWorkerMirroredStrategy",
        mesh=world.mesh(grid).id,
        batch_axis="replica",
        auto_shard=True,
        replicas=4,
        global_batch=10,
        replica_batches=(3, 3, 2, 2),
        processes=workers,
    )
    groups = ((held[:3], workers, 4), (held[3:], (2,), 1))
    models = []
    for arrays, processes, devices in groups:
        variables = tuple(
            _variable(one, f"sequential/{name}", None, "trainable")
            for one, name in zip(arrays, names, strict=True)
        )
        first = 0 if devices == 4 else 4
        keys = tuple(world.key(device) for device in world.devices()[first : first + devices])
        total = sum(one.device_bytes for one in variables)
        models.append(
            Model(
                path="model",
                kind="Sequential",
                variables=variables,
                variables_omitted=0,
                unmatched=(),
                totals=(DeviceBytes(devices=keys, nbytes=total),),
                processes=processes,
            )
        )
    followed = Progress(
        what="evaluate, checkpoint ckpt-3",
        metrics=(Metric(name="loss", value=0.4182), Metric(name="accuracy", value=0.8803)),
    )
    training = {**TRAINING, "progress": _epoch(4, 0.2871, 0.9231)}
    evaluating = {"state": "idle", "role": "evaluator", "task": "evaluator 0", "progress": followed}
    return world.case(
        [grid],
        held,
        state="running",
        processes=(
            world.process(0, **training, task="worker 0, chief"),
            world.process(1, **training, waiting=True, task="worker 1"),
            world.process(2, **evaluating),
        ),
        distributions=(strategy,),
        models=tuple(models),
        notices=(
            Notice(
                level="warn",
                title="The batch is divided unevenly:",
                text=(
                    "global batch 10 on 4 replicas: 3, 3, 2, 2; the means of all replicas count the same, "
                    "so examples in smaller parts weigh more"
                ),
            ),
        ),
    )
