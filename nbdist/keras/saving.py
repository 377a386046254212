"""Writing a model once, whole, and never in halves."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np

from nbdist.errors import InputError
from nbdist.keras.roles import WRITES, role, temporary_name
from nbdist.keras.together import ProcessGroup, all_or_none, announce, gathered, group

Write = Callable[[str], None]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Saves a model to one path that all processes name, as `model.save` does in a single process.

    Variables in pieces on several processes are gathered; one process writes, to a name beside the path that
    then takes its place, so that a failed write leaves what was there. All return when it is there.

    Args:
      model: A `keras.Model`.
      path: Ends in `.keras`, or in `.weights.h5` for the weights alone.

    Raises:
      InputError: Another kind of path.
      AgreementError: Another process does not call this, or could not write.
    """
    target = Path(path)
    if not target.name.endswith((".keras", ".weights.h5")):
        raise InputError(
            f"save got the path {str(target)!r}; it must end in .keras or .weights.h5."
        )
    announce("save")
    whole = target.name.endswith(".keras")
    write_once(model, target, model.save if whole else model.save_weights)


def write_once(model: Any, target: Path, write: Write) -> bool:
    """Has one process write; every process must call this.

    Args:
      model: Whose variables are written.
      target: Where to; its folder is made.
      write: Writes to the path it is given.

    Returns:
      Whether this process is the one that wrote.
    """
    found = group()
    if found is not None:
        _write_for_all(model, target, write, found)
        return found.writes
    if role() == WRITES:
        _replace(target, write)
        return True
    if keras.config.backend() == "tensorflow":
        # Reading a variable that is kept on several workers takes all of them.
        with tempfile.TemporaryDirectory(prefix="nbdist-keras-") as folder:
            write(str(Path(folder) / target.name))
    return False


def _write_for_all(model: Any, target: Path, write: Write, found: ProcessGroup) -> None:
    variables = variables_of(model)
    values = gathered(variables, found)

    def act() -> None:
        with without_distribution(), holding(variables, values):
            _replace(target, write)

    all_or_none(f"write {target}", act if found.writes else None, found)


def _replace(target: Path, write: Write) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = temporary_name(target)
    try:
        write(str(beside))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def variables_of(model: Any) -> list[Any]:
    """All variables of a model and its optimizer, each once."""
    optimizer = getattr(model, "optimizer", None)
    found = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    return list({id(variable): variable for variable in found}.values())


@contextlib.contextmanager
def without_distribution() -> Iterator[None]:
    """No distribution is set; Keras makes variables while it writes, which would wait for all processes."""
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


@contextlib.contextmanager
def holding(variables: list[Any], values: dict[int, np.ndarray[Any, Any]]) -> Iterator[None]:
    """Variables hold other values for a while, on this process alone.

    Private API: `KerasVariable._value` (keras 3.15.1), which Keras' own JAX trainer sets to None and back.
    `assign` would bring the value to all devices again. Without it Keras' writer meets the variable as
    it is, and raises JAX's own error; nothing is written.

    Args:
      variables: Of a model.
      values: By `id` of the variable; others stay.
    """
    changed = [v for v in variables if id(v) in values and hasattr(v, "_value")]
    before = [variable._value for variable in changed]
    try:
        for variable in changed:
            variable._value = keras.ops.convert_to_tensor(values[id(variable)], variable.dtype)
        yield
    finally:
        for variable, value in zip(changed, before, strict=True):
            variable._value = value
