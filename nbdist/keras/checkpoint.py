"""Models on disk: saving a whole model once, and checkpoints for any number of processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np

from nbdist.errors import InputError
from nbdist.keras import WRITES, role, temporary_name
from nbdist.keras.together import ProcessGroup, all_or_none, announce, gathered, group

Write = Callable[[str], None]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a model to one path that all processes name, as `model.save` does in a single process.

    Variables in pieces on several processes are gathered; one process writes a file with another name beside the
    path, then renames it, so that a failed write leaves the earlier file. All processes return once the file is in
    place.

    Args:
      model: A `keras.Model`.
      path: Ends in `.keras`, or in `.weights.h5` for the weights alone.

    Raises:
      InputError: The path has another ending.
      AgreementError: Another process does not call this function, or could not write.
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
    """Have one process write; every process must call this.

    Args:
      model: The model whose variables are written.
      target: The path to write; its folder is made.
      write: Called with a path; writes the file there.

    Returns:
      Whether this process wrote the file.
    """
    found = group()
    if found is not None:
        _write_for_all(model, target, write, found)
        return found.writes
    if role() == WRITES:
        _replace(target, write)
        return True
    if keras.config.backend() == "tensorflow":
        # All workers must take part in reading a variable that is kept on several of them.
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
    """Return all variables of a model and its optimizer, each once."""
    optimizer = getattr(model, "optimizer", None)
    found = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    return list({id(variable): variable for variable in found}.values())


@contextlib.contextmanager
def without_distribution() -> Iterator[None]:
    """Unset the distribution: otherwise variables that Keras makes while it writes wait for all processes."""
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


@contextlib.contextmanager
def holding(variables: list[Any], values: dict[int, np.ndarray[Any, Any]]) -> Iterator[None]:
    """Give variables other values during the block, on this process only.

    Private API: `KerasVariable._value` (keras 3.15.1), which Keras' own JAX trainer sets to None and back.
    `assign` would distribute the value over all devices again. If the attribute is missing, Keras' writer sees the
    original variable and raises JAX's own error; nothing is written.

    Args:
      variables: Variables of a model.
      values: New values, by `id` of the variable; other variables stay as they are.
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


SUFFIX = ".weights.h5"
ATTRIBUTE = "nbdist"
"""The attribute that nbdist adds to Keras' file: the point that training had reached, as JSON."""


class Checkpoint(keras.callbacks.Callback):
    """Writes weights and optimizer while a model trains; pass it to `fit` on every process.

    The files are Keras' own: a single process reads them with `model.load_weights`. Each is written by one
    process under another name first, so a failed write leaves the checkpoints that are there.

    Args:
      path: Ends in `.weights.h5`; `{epoch}`, `{batch}` (both from 1) and names of the logs are filled in, as
        in `keras.callbacks.ModelCheckpoint`.
      save_freq: `"epoch"`, or a number of batches.
      keep: How many of the newest files that fit the template are kept; None: all.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        save_freq: Literal["epoch"] | int = "epoch",
        keep: int | None = None,
    ) -> None:
        super().__init__()
        self.path = os.fspath(path)
        if not self.path.endswith(SUFFIX):
            raise InputError(f"Checkpoint got the path {self.path!r}; it must end in {SUFFIX}.")
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise InputError(
                f"save_freq is {save_freq!r}; it must be 'epoch' or a number of batches."
            )
        if keep is not None and keep < 1:
            raise InputError(f"keep is {keep}; it must be at least 1, or None.")
        self.save_freq = save_freq
        self.keep = keep
        self._epoch = 0
        self._batches = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        if self.save_freq == "epoch":
            return
        self._batches += 1
        if self._batches % self.save_freq == 0:
            self._save(self._epoch, batch + 1, logs, go_on_from=self._epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras' hook."""
        if self.save_freq == "epoch":
            self._save(epoch, 0, logs, go_on_from=epoch + 1)

    def _save(self, epoch: int, batch: int, logs: Any, *, go_on_from: int) -> None:
        names = {**(logs or {}), "epoch": epoch + 1, "batch": batch}
        target = Path(self.path.format(**names))
        # This copies the newest state of training into the model's variables.
        model = self.model
        reached = {"epoch": go_on_from, "batch": batch}

        def write(path: str) -> None:
            model.save_weights(path)
            _note(path, reached)

        wrote = write_once(model, target, write)
        if wrote and self.keep is not None:
            _keep_newest(target.parent, Path(self.path).name, self.keep)


def latest(folder: str | os.PathLike[str]) -> str | None:
    """Return the newest checkpoint in a folder.

    Args:
      folder: The folder of `Checkpoint`'s path.

    Returns:
      Its path; None if there is none.
    """
    found = [path for path in Path(folder).glob(f"*{SUFFIX}") if not path.name.startswith(".")]
    return str(max(found, key=_age)) if found else None


def restore(model: Any, path: str | os.PathLike[str]) -> int:
    """Read a checkpoint into a model under any distribution; every process must call this.

    If the model is compiled, the optimizer's state is read too. Only the model must be the same as when the
    checkpoint was written: mesh, kind of distribution and number of processes may differ.

    Args:
      model: A built `keras.Model`, made under the distribution that it will train with.
      path: What `Checkpoint` wrote, readable on every process.

    Returns:
      The epoch to go on from, for `initial_epoch` of `fit`. If the checkpoint is from the middle of an epoch, that
      epoch is repeated. 0 if the file does not say.

    Raises:
      InputError: The model is not built, or this process finds no such file.
      AgreementError: Another process does not call this function, or cannot read the file.
    """
    file = Path(path)
    if not model.built:
        raise InputError(
            "restore needs a built model: give it an Input, or call model.build(input_shape)."
        )
    announce("restore")

    def check() -> None:
        if not file.is_file():
            raise InputError(f"There is no checkpoint {str(file)!r} on this process's host.")

    found = group()
    if found is None:
        check()
    else:
        all_or_none(f"read {file}", check, found)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    model.load_weights(str(file))
    return int(_noted(file).get("epoch", 0))


def _note(path: str, reached: dict[str, int]) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        file.attrs[ATTRIBUTE] = json.dumps(reached)


def _noted(path: Path) -> dict[str, Any]:
    import h5py

    with h5py.File(path, "r") as file:
        noted: dict[str, Any] = json.loads(file.attrs.get(ATTRIBUTE, "{}"))
        return noted


def _keep_newest(folder: Path, template: str, count: int) -> None:
    """Delete all but the newest files whose names the template could have given."""
    parts = re.split(r"\{[^}]*\}", template)
    name = re.compile("[^.].*".join(re.escape(part) for part in parts))
    found = [path for path in folder.iterdir() if name.fullmatch(path.name)]
    for path in sorted(found, key=_age)[:-count]:
        path.unlink(missing_ok=True)


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns
