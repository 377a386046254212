"""An evaluator that follows the training, which TensorFlow on several processes leaves to its users.

It works in one process as well, and in processes that nbdist did not start. TensorFlow is imported when a
function is called, not before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbdist.engine.probe import activity
from nbdist.errors import InputError

__all__ = ["follow_checkpoints"]


def follow_checkpoints(
    model: Any,
    data: Any,
    directory: str | os.PathLike[str],
    *,
    timeout_s: float | None = None,
    least_seconds: float = 0.0,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Evaluate each new checkpoint of a directory as it appears; for an evaluator, beside the training.

    The evaluator waits for nobody: if checkpoints come faster than it can evaluate them, the newest is next. The
    results stand beside the process in nbdist's view. An interrupt ends it.

    Args:
      model: A built and compiled `keras.Model` like the one that trains.
      data: What `model.evaluate` takes as its first argument.
      directory: Where `tf.train.Checkpoint(model=…)` or its `CheckpointManager` writes.
      timeout_s: Ends when no newer checkpoint has come for so long; None: never.
      least_seconds: Between the beginnings of two evaluations.

    Yields:
      The checkpoint's name, such as `"ckpt-3"`, and what `model.evaluate` found, by name.

    Raises:
      InputError: The model is not built, or a checkpoint does not fit it.

    Source: `tf.train.checkpoints_iterator`.
    """
    import tensorflow as tf

    if not model.built:
        raise InputError(
            "follow_checkpoints needs a built model: give it an Input, or call model.build(input_shape)."
        )
    newer = tf.train.checkpoints_iterator(
        os.fspath(directory), min_interval_secs=least_seconds, timeout=timeout_s
    )
    for path in newer:
        # One that was deleted meanwhile; a newer one is there.
        with contextlib.suppress(tf.errors.NotFoundError):
            _restore(tf, model, path)
            name = Path(path).name
            what = f"evaluate, checkpoint {name}"
            with activity.evaluating(what):
                results = {k: float(v) for k, v in _evaluate(model, data).items()}
            activity.note(what, results)
            yield name, results


def _restore(tf: Any, model: Any, path: str) -> None:
    stored = {name.split("/.ATTRIBUTES")[0] for name, _ in tf.train.list_variables(path)}
    if not any(name.startswith("model/") for name in stored):
        raise InputError(
            f"Checkpoint {path} holds no model: write it with tf.train.Checkpoint(model=model)."
        )
    try:
        status = tf.train.Checkpoint(model=model).restore(path)
        status.assert_nontrivial_match()
    except (AssertionError, ValueError) as error:
        raise InputError(
            f"Checkpoint {path} does not fit the model {model.name!r}: {error} "
            "Make the model as the one that trains is made."
        ) from error
    # The optimizer of the one that trains has slots that this one has not.
    status.expect_partial()


def _evaluate(model: Any, data: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.evaluate(data, verbose=0, return_dict=True)
    return found
