"""One guarded call as processes send it to each other, and the reasons why it must not begin.

Under a distribution over several processes, every step is one computation of all of them. If one process made
another call, the others would wait for ever. The functions named `…_refusal` find the reason why one process
refuses a call by itself; `disagreement` compares the calls of all processes. Each text says what to change. Facts
that are not known beforehand are not compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbdist.engine.frameworks.keras.guards.arguments import (
    BatchPlaces,
    RowsPerStep,
    callbacks_in,
    is_tf_dataset,
    written_paths,
)
from nbdist.errors import AgreementError
from nbdist.notation import on_host_text, processes_text

EQUAL = {
    "mesh": "a distribution over {}",
    "steps": "{} steps an epoch",
    "epochs": "epochs up to {}",
    "step rows": "{} rows a step",
    "last rows": "{} rows in the last step",
    "validation steps": "{} validation steps",
    "rows": "{} rows",
}
"""The facts that must be the same on all processes, and the words for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """One guarded call of one process.

    `facts` are values under the keys of `EQUAL`, None where not known beforehand. `paths` are files and folders
    that the call will write; processes of one host must not share them. `refusal` is the reason why this process
    will not make the call after all. `rows` is a digest of this process's rows, if each process must give rows of
    its own.
    """

    method: str
    host: str
    facts: Mapping[str, int | str | None] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    refusal: str | None = None
    rows: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the call in types that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> GuardedCall:
        """Return the call for a result of `plain`."""
        return cls(**{**data, "paths": tuple(data["paths"])})


def disagreement(calls: Mapping[int, GuardedCall], me: int) -> AgreementError | None:
    """Return the error if these calls, one of each process, cannot work together; None if they can.

    Args:
      calls: The calls by process id.
      me: The process that will raise the error.
    """
    for process, call in calls.items():
        if call.refusal is not None and process != me:
            return AgreementError(
                f"{on_host_text([process], call.host)} does not call {call.method}: {call.refusal}"
            )
    methods = {process: call.method for process, call in calls.items()}
    if len(set(methods.values())) > 1:
        return AgreementError(
            f"{_each(methods, 'calls {}')}; under the set distribution every process must make the same "
            "calls in the same order. Nothing was started."
        )
    return _different_facts(calls) or _shared_paths(calls)


def same_rows(calls: Mapping[int, GuardedCall], times: int) -> str | None:
    """Return a warning if all processes give the same rows, though each must give its own; None otherwise.

    Args:
      calls: The calls by process id; with a single call there is no warning.
      times: How often an epoch would train on each row.
    """
    digests = {call.rows for call in calls.values()}
    if len(calls) < 2 or len(digests) > 1 or None in digests:
        return None
    method = next(iter(calls.values())).method
    return (
        f"{method} got the same x on {processes_text(calls)}, so it trains with each row {times} times in an "
        "epoch. With auto_shard_dataset=False each process gives rows of its own, such as "
        f"x[jax.process_index()::{times}]."
    )


def _different_facts(calls: Mapping[int, GuardedCall]) -> AgreementError | None:
    method = next(iter(calls.values())).method
    for name, reads in EQUAL.items():
        values = {p: call.facts.get(name) for p, call in calls.items()}
        known = {p: value for p, value in values.items() if value is not None}
        if len(set(known.values())) > 1:
            return AgreementError(
                f"{method} would run with {_each(known, reads)}. Every step is one computation of all "
                f"processes, so the others would wait for ever. {_remedy(name, known)} "
                "Nothing was started."
            )
    return None


def _remedy(name: str, known: Mapping[int, int | str]) -> str:
    if name == "mesh":
        return "Set the same distribution on every process."
    if "steps" in name:
        least = min(v for v in known.values() if isinstance(v, int))
        option = "validation_steps" if name.startswith("validation") else "steps_per_epoch"
        return f"Give every process as many rows, or {option}={least}."
    if name == "epochs":
        return "Give every process the same epochs."
    return "Give every process as many rows."


def _shared_paths(calls: Mapping[int, GuardedCall]) -> AgreementError | None:
    users: dict[tuple[str, str], list[int]] = {}
    for process, call in calls.items():
        for path in call.paths:
            users.setdefault((call.host, path), []).append(process)
    for (host, path), ids in users.items():
        if len(ids) > 1:
            method = calls[ids[0]].method
            return AgreementError(
                f"{method} on {on_host_text(ids, host)} would write the same path {path}, which "
                f"corrupts it or waits for ever. {_path_remedy(method)} Nothing was written."
            )
    return None


def _path_remedy(method: str) -> str:
    if method.startswith("save"):
        return (
            "On all processes call nbdist.keras.save(model, path), with which process 0 alone writes; "
            "or give each process a path of its own."
        )
    return (
        "Use nbdist.keras.Checkpoint(path), with which process 0 alone writes; "
        "or put it under nbdist.keras.checkpoint_dir(path), which differs between processes."
    )


def _each(values: Mapping[int, object], reads: str) -> str:
    """Return text such as `8 steps on process 0 and 7 steps on process 1`; for calls, the processes come first."""
    groups: dict[object, list[int]] = {}
    for process, value in values.items():
        groups.setdefault(value, []).append(process)
    if reads.startswith("calls"):
        return ", ".join(f"{processes_text(ids)} {reads.format(v)}" for v, ids in groups.items())
    return " and ".join(f"{reads.format(v)} on {processes_text(ids)}" for v, ids in groups.items())


def input_refusal(
    method: str, arguments: Mapping[str, Any], distribution: Any, places: BatchPlaces
) -> str | None:
    """Return why auto-sharding cannot take this input; None if it can, or is off."""
    if not distribution.auto_shard_dataset:
        return None
    names = [name for name in ("x", "validation_data") if arguments.get(name) is not None]
    wrong = [name for name in names if not is_tf_dataset(arguments[name])]
    if not wrong:
        return None
    value = arguments[wrong[0]]
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return (
        f"{method} got {wrong[0]} as {kind}, but the set {places.kind} has auto_shard_dataset=True, with which "
        f"{len(places.processes)} processes can share out a tf.data.Dataset only. Either make the distribution "
        "with auto_shard_dataset=False and give each process its own rows, such as "
        f"x[jax.process_index()::{len(places.processes)}]; batch_size is then that of one process. "
        "Or pass one tf.data.Dataset of all rows, batched with the global batch size."
    )


def batch_refusal(method: str, option: str, feed: RowsPerStep, places: BatchPlaces) -> str | None:
    """Return why the sizes of steps do not divide over the mesh; None if they do, or are not known."""
    bad = places.bad_sizes(feed)
    if not bad or feed.rows is None:
        return None
    own = places.own
    where = f"the {own} places this process has of the {places.count} on mesh axis {places.axis!r}"
    if feed.batch in bad and feed.batch != feed.rows:
        return (
            f"{method} with {option}={feed.batch} cannot split a step of {feed.batch} rows evenly over {where}. "
            f"Nearest that works: {option}={_nearest(feed.batch, own)}."
        )
    left = f"leaves {feed.last} in the last step" if feed.last else "is a single step"
    rows = feed.rows
    return (
        f"{method} with {rows} rows and {option}={feed.batch} {left}, which cannot be split evenly over {where}. "
        f"Nearest that works: {_nearest(rows, own)} rows on this process, such as x[:{rows - rows % own}]."
        if rows >= own
        else f"{method} has {rows} rows, too few for {where}."
    )


def dataset_refusal(method: str, data: Any, places: BatchPlaces) -> str | None:
    """Return why a `tf.data.Dataset`'s batches do not divide over the mesh; None if they do, or are not known."""
    if not is_tf_dataset(data):
        return None
    size = _batch_of(data)
    if size is None or size % places.count == 0:
        return None
    return (
        f"{method} got a tf.data.Dataset with batches of {size} rows, which cannot be split evenly over the "
        f"{places.count} places on mesh axis {places.axis!r}. Nearest that works: "
        f".batch({_nearest(size, places.count)}, drop_remainder=True)."
    )


def _batch_of(data: Any) -> int | None:
    """Return the number of rows in each batch; None if not known or not equal for all."""
    import keras

    for spec in keras.tree.flatten(data.element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and shape.rank:
            return int(shape[0]) if shape[0] is not None else None
    return None


def output_refusal(method: str, model: Any, places: BatchPlaces) -> str | None:
    """Return why `predict` cannot give its output, which lies on several processes' devices; None if it can."""
    import keras

    if method != "predict" or places.own == places.count:
        return None
    if type(model).predict_step is not keras.Model.predict_step:
        return None
    return (
        f"predict leaves its output sharded over {len(places.processes)} processes, and Keras fails to fetch it "
        "at the end. nbdist.keras.predict(model, x) gives it whole on every process: call it on all of them, "
        "each with all rows."
    )


def save_refusal(method: str, model: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return why Keras cannot write variables that lie on devices of several processes; None if it can."""
    if not written_paths(method, arguments):
        return None
    split = next((v for v in model.variables if _is_split(v)), None)
    if split is None:
        return None
    instead = "nbdist.keras.save(model, path)"
    if not method.startswith("save"):
        instead = "nbdist.keras.Checkpoint(path)"
        names = {type(callback).__name__ for callback in callbacks_in(arguments.get("callbacks"))}
        method = " and ".join(sorted(names & {"ModelCheckpoint", "BackupAndRestore"}))
    return (
        f"{method} cannot read variable {split.path!r}, whose shards lie on devices of other processes too. "
        f"{instead}, called on every process, gathers them, and process 0 writes."
    )


def _is_split(variable: Any) -> bool:
    value = variable.value
    return not (value.is_fully_addressable or value.is_fully_replicated)


def _nearest(size: int, step: int) -> str:
    """Return the nearest multiples of `step`, such as `28 or 32` for 30 and 4."""
    below, above = size - size % step, size + step - size % step
    return f"{below} or {above}" if below else f"{above}"
