"""What Keras adds to a look: the distribution that is set, and the models of the namespace."""

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
    """One look: sections of a report."""

    distributions: tuple[Distribution, ...]
    meshes: tuple[Mesh, ...]
    models: tuple[Model, ...]


class KerasObserver:
    """Looks at Keras again and again; used from one thread, but for `note`.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      places: Where the variables of models are found, by the walk as well.
    """

    def __init__(self, main_thread: int, places: Places) -> None:
        self._set = SetDistribution(main_thread)
        self._meshes = Meshes()
        self._models = Models(places)
        self._met: list[tuple[str, Any]] = []

    def add_model(self, path: str, model: Any) -> None:
        """Takes a model that was met; one that has two names counts once."""
        if len(self._met) < MOST_MODELS and not any(model is one for _, one in self._met):
            self._met.append((path, model))

    def look(self, describe: Describe, meshes: Callable[[], Mapping[str, Mesh]]) -> OfKeras:
        """What there is now; holds no model afterwards.

        Args:
          describe: Describes the array that a variable holds.
          meshes: Gives the meshes of the arrays described so far, by id.
        """
        distribution = self._set.get()
        met, self._met = self._met, []
        models = self._models.describe(met, distribution, describe, meshes)
        if distribution is None:
            return OfKeras((), (), models)
        described, mesh = describe_distribution(distribution, self._meshes)
        return OfKeras((described,), (mesh,) if mesh is not None else (), models)

    def note(self) -> None:
        """Notes the distribution that is set; called on the main thread."""
        self._set.note()

    def note_once(self) -> None:
        """Notes the distribution that is set, and leaves Keras as it is."""
        self._set.read()

    def hook(self) -> None:
        """Has each change of the distribution, and each epoch's results, noted."""
        self._set.hook()
        hook_callbacks()

    def unhook(self) -> None:
        """Leaves Keras as it was."""
        self._set.unhook()
        unhook_callbacks()
