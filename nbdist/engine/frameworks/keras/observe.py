"""Observer of Keras: the distribution that is set, and the models of the namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Distribution, Mesh, Model
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.keras.distribution import SetDistribution, describe_distribution
from nbdist.engine.frameworks.keras.models import MOST_MODELS, Models
from nbdist.engine.frameworks.keras.progress import hook_callbacks, unhook_callbacks
from nbdist.engine.frameworks.keras.variables import Places
from nbdist.engine.probe.observer import Describe


@dataclass(frozen=True, slots=True)
class OfKeras:
    """The result of one look: sections of a report."""

    distributions: tuple[Distribution, ...]
    meshes: tuple[Mesh, ...]
    models: tuple[Model, ...]


class KerasObserver:
    """An observer of Keras for repeated looks; all methods but `note` are called on one thread.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      places: Finds the variables of models; the walk over the namespace uses the same object.
    """

    def __init__(self, main_thread: int, places: Places) -> None:
        self._set = SetDistribution(main_thread)
        self._meshes = Meshes()
        self._models = Models(places)
        self._met: list[tuple[str, Any]] = []

    def add_model(self, path: str, model: Any) -> None:
        """Take a model that the walk has met; a model with two names counts once."""
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
