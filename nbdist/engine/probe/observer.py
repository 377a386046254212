"""What the probe asks of each framework: observers of arrays and of models, which give the sections of a report.

Observers are called on the probe's thread, except `note`. None imports its framework, starts anything, calls
a collective, reads device memory or runs what users wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh, Model
from nbdist.engine.probe.library import Library
from nbdist.engine.probe.samples import Seen

Describe = Callable[[str | None, Any], Array | None]
"""Describes an array, from its path among the arrays or its value."""


class Observed(Protocol):
    """A framework, as the probe sees it; asked again before each look, since it may just have been imported."""

    packages: tuple[str, ...]

    def is_imported(self) -> bool:
        """Whether this process has imported it; until then nothing else is asked."""
        ...

    def library(self) -> Library | None:
        """Its containers, modules and models, for one observer or walk; None where it has none."""
        ...

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """What looks at its arrays; None where it has none of its own.

        Args:
          main_thread: `threading.Thread.ident` of the thread that runs cells.
          process_id: Of this process, from the launch plan.
        """
        ...

    def model_observer(self, main_thread: int, library: Library) -> ModelObserver | None:
        """What looks at its models, found through `library`; None where it has none."""
        ...

    def model_glance(self, value: object) -> Seen | None:
        """A model of its own by its variables, of which no values are read; None for anything else."""
        ...


class Observer(Protocol):
    """Looks at the arrays, devices and meshes of one framework, again and again.

    A look is `begin`, then `add` for each array that the walk over the namespace meets, then the sections.
    What has not changed should be the same object in the next look: it is then neither compared nor encoded
    again.
    """

    def begin(self) -> bool:
        """Starts a look; False while there is nothing to see, and then nothing else is asked.

        Nothing is to see while the framework is not imported, has not started, or is there for
        something else, as TensorFlow for `tf.data` beside JAX.
        """
        ...

    def array_classes(self) -> tuple[type, ...]:
        """What counts as an array: these classes and those derived from them."""
        ...

    def mesh_classes(self) -> tuple[type, ...]:
        """What counts as a mesh; `add_mesh` gets those."""
        ...

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Lists an array under a path; False for one that is not to be counted (deleted).

        Args:
          path: The expression that reaches it.
          array: An instance of one of `array_classes`.
          lent: It belongs to a training step that may have given its memory away; its metadata holds.
        """
        ...

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """Lists again what the look before listed under a path with this shape; False where nothing was.

        For a variable whose value a running training step has taken out for its time.
        """
        ...

    def add_mesh(self, mesh: Any) -> None:
        """Lists a mesh that was met by itself."""
        ...

    def describe(self, array: Any) -> Array | None:
        """One array with an empty path, without listing it; lists its mesh. None where it cannot be described."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """This process's devices."""
        ...

    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes of this look, by id."""
        ...

    def arrays(self) -> tuple[Array, ...]:
        """The arrays of this look, in the order met."""
        ...

    def context_mesh(self) -> str | None:
        """The id of the mesh in context on the main thread; None where there is none."""
        ...

    def distributions(self) -> tuple[Distribution, ...]:
        """What is set now; its mesh must be in `meshes()`."""
        ...

    def note(self) -> None:
        """Called on the main thread at each start and end of a cell: notes what only that thread knows."""
        ...

    def hook(self) -> None:
        """Called before each look, also in the middle of a cell, when the framework may just have come."""
        ...

    def unhook(self) -> None:
        """Leaves the framework as it was."""
        ...


class ModelObserver(Protocol):
    """Looks at the models of one framework, and at the distribution that it sets, again and again."""

    def add_model(self, path: str, model: Any) -> None:
        """Takes a model that the walk has met."""
        ...

    def look(self, describe: Describe, meshes: Callable[[], Mapping[str, Mesh]]) -> Models:
        """What there is now; keeps no model afterwards.

        Args:
          describe: Describes the array that a variable holds.
          meshes: Gives the meshes of the arrays described so far, by id.
        """
        ...

    def note(self) -> None:
        """As `Observer.note`."""
        ...

    def note_once(self) -> None:
        """Notes what is set now, on the main thread, and leaves the framework as it is."""
        ...

    def hook(self) -> None:
        """As `Observer.hook`."""
        ...

    def unhook(self) -> None:
        """As `Observer.unhook`."""
        ...


class Models(Protocol):
    """One look of a `ModelObserver`: sections of a report."""

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """As `Observer.distributions`."""
        ...

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes that they refer to."""
        ...

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that were added, once they have variables."""
        ...
