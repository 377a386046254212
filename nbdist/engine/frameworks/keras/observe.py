"""Observer of Keras: the distribution that is set, the models of the namespace, and the results of training.

The models are described in looks of the probe's thread. The rest is noted where it happens: the distribution,
which other threads cannot see, and the results of each epoch of `fit` and of each evaluation, by a hook into
Keras' callbacks (`hook_callbacks`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Distribution, Mesh, Model
from nbdist.engine.frameworks.jax.describe import Meshes
from nbdist.engine.frameworks.keras.distribution import SetDistribution, describe_distribution
from nbdist.engine.frameworks.keras.expressions import PACKAGES
from nbdist.engine.frameworks.keras.models import MOST_MODELS, KerasModels
from nbdist.engine.frameworks.keras.variables import VariablePlaces
from nbdist.engine.probe.activity import evaluation, note
from nbdist.engine.probe.observer import Describe

_hooked: dict[str, Callable[[], None]] = {}
"""The function that removes each hook, by package."""


def hook_callbacks() -> None:
    """Note the results of each epoch and evaluation from now on, for the packages imported by now.

    `keras.callbacks.CallbackList` is public: every `fit` and `evaluate` calls it at each epoch's end and each
    evaluation's end. The hook wraps its methods: an added callback would show in the results and the output of
    `fit`. A class without these methods is left alone, and nothing is noted.
    """
    for name in PACKAGES:
        package = sys.modules.get(name)
        if name in _hooked or package is None:
            continue
        if getattr(package.__spec__, "_initializing", False):
            continue
        cls = getattr(sys.modules.get(f"{name}.callbacks"), "CallbackList", None)
        unhook = _follow(cls)
        if unhook is not None:
            _hooked[name] = unhook


def unhook_callbacks() -> None:
    """Remove the hooks from all packages."""
    while _hooked:
        _hooked.popitem()[1]()


def _follow(cls: Any) -> Callable[[], None] | None:
    """Place the hook; return a function that removes it, or None where the class or its methods are missing."""
    epoch_end, test_end = (getattr(cls, name, None) for name in ("on_epoch_end", "on_test_end"))
    if epoch_end is None or test_end is None:
        return None

    @functools.wraps(epoch_end)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = epoch_end(self, epoch, logs)
        epochs = (getattr(self, "params", None) or {}).get("epochs")
        of = f" of {epochs}" if epochs else ""
        note(f"fit, epoch {epoch + 1}{of}", _results(logs))
        return result

    @functools.wraps(test_end)
    def on_test_end(self: Any, logs: Any = None) -> Any:
        __tracebackhide__ = True
        result = test_end(self, logs)
        if not _is_of_fit(self):
            note(evaluation(), _results(logs))
        return result

    cls.on_epoch_end, cls.on_test_end = on_epoch_end, on_test_end

    def unhook() -> None:
        cls.on_epoch_end, cls.on_test_end = epoch_end, test_end

    return unhook


def _is_of_fit(callbacks: Any) -> bool:
    """Return whether a list of callbacks belongs to a `fit`, which also validates with it at each epoch's end.

    Every `fit` has a `History`, and sets `epoch` on it at the start. In `tf_keras`, evaluations have a `History`,
    too.
    """
    every = getattr(callbacks, "callbacks", ())
    return any(type(one).__name__ == "History" and hasattr(one, "epoch") for one in every)


def _results(logs: Any) -> dict[str, Any]:
    """Return the results as numbers; called on the thread that trains, where Keras has just made them numbers."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue  # not one number, such as a confusion matrix
    return found


@dataclass(frozen=True, slots=True)
class OfKeras:
    """The result of one look: sections of a report."""

    distributions: tuple[Distribution, ...]
    meshes: tuple[Mesh, ...]
    models: tuple[Model, ...]


class KerasObserver:
    """An observer of Keras for repeated looks.

    `note` and `note_once` are called on the main thread; `add_model` and `look` on one thread, whichever it is.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      places: Finds the variables of models; the walk over the namespace uses the same object.
    """

    def __init__(self, main_thread: int, places: VariablePlaces) -> None:
        self._set = SetDistribution(main_thread)
        self._meshes = Meshes()
        self._models = KerasModels(places)
        self._met: list[tuple[str, Any]] = []

    def add_model(self, path: str, model: Any) -> None:
        """Take a model that the walk over the namespace has met; a model with two names counts once."""
        if len(self._met) < MOST_MODELS and not any(model is one for _, one in self._met):
            self._met.append((path, model))

    def look(self, describe: Describe, meshes: Callable[[], Mapping[str, Mesh]]) -> OfKeras:
        """Return the sections as of now; keep no model afterwards.

        Args:
          describe: Describes the array that a variable holds.
          meshes: Returns the meshes of the arrays described so far, by id.
        """
        distribution = self._set.get()
        met, self._met = self._met, []
        models = self._models.describe(met, distribution, describe, meshes)
        if distribution is None:
            return OfKeras((), (), models)
        described, mesh = describe_distribution(distribution, self._meshes)
        return OfKeras((described,), (mesh,) if mesh is not None else (), models)

    def note(self) -> None:
        """Note the distribution that is set, and follow its changes; called on the main thread."""
        self._set.note()

    def note_once(self) -> None:
        """Note the distribution that is set, and leave Keras as it is."""
        self._set.read()

    def hook(self) -> None:
        """Hook into Keras: note each change of the distribution, and the results of each epoch and evaluation."""
        self._set.hook()
        hook_callbacks()

    def unhook(self) -> None:
        """Remove the hooks."""
        self._set.unhook()
        unhook_callbacks()
