"""Reasons for which one process refuses a call by itself, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist.engine.frameworks.keras.guards.arguments import (
    Feed,
    callbacks_in,
    is_tf_dataset,
    written_paths,
)
from nbdist.engine.frameworks.keras.guards.places import Places


def input_refusal(
    method: str, arguments: Mapping[str, Any], distribution: Any, places: Places
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


def batch_refusal(method: str, option: str, feed: Feed, places: Places) -> str | None:
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


def dataset_refusal(method: str, data: Any, places: Places) -> str | None:
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


def output_refusal(method: str, model: Any, places: Places) -> str | None:
    """Return why `predict` cannot give its output, which lies on several processes' devices; None if it can."""
    import keras

    if method != "predict" or places.own == places.count:
        return None
    if type(model).predict_step is not keras.Model.predict_step:
        return None
    return (
        f"predict leaves its output in pieces on {len(places.processes)} processes, and Keras fails to fetch it "
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
        f"{method} cannot read variable {split.path!r}, whose pieces lie on devices of other processes too. "
        f"{instead}, called on every process, gathers them, and process 0 writes."
    )


def _is_split(variable: Any) -> bool:
    value = variable.value
    return not (value.is_fully_addressable or value.is_fully_replicated)


def _nearest(size: int, step: int) -> str:
    """Return the nearest multiples of `step`, such as `28 or 32` for 30 and 4."""
    below, above = size - size % step, size + step - size % step
    return f"{below} or {above}" if below else f"{above}"
