"""The interfaces between the probe and frameworks: observers of arrays and of models make a report's sections.

Observers are called on the probe's thread, except `note`. None imports its framework, starts anything, calls
a collective, reads device memory or runs what users wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh, Model
from nbdist.engine.cell.code_owners import Packaged
from nbdist.engine.probe.classes import Library
from nbdist.engine.probe.samples import SeenArray

Describe = Callable[[str | None, Any], Array | None]
"""Describes an array, from its path among the arrays or its value."""


class Observed(Packaged, Protocol):
    """A framework, as the probe sees it; asked again before each look, since it may just have been imported."""

    def is_imported(self) -> bool:
        """Return whether this process has imported the framework; until then nothing else is asked."""

    @property
    def library(self) -> Callable[[], Library] | None:
        """Returns the library of the framework, one for each observer or walk."""

    @property
    def observer(self) -> Callable[[int, int], Observer] | None:
        """Returns an observer of its arrays, from the `ident` of the thread that runs cells and the process id."""

    @property
    def model_observer(self) -> Callable[[int, Library], ModelObserver] | None:
        """Returns an observer of its models, from the `ident` of the thread that runs cells and the library."""

    @property
    def model_glance(self) -> Callable[[object], SeenArray | None] | None:
        """Returns the description of a model by its variables, without their values; None for anything else."""


class Observer(Protocol):
    """An observer of the arrays, devices and meshes of one framework, for repeated looks.

    A look is `begin`, then `add` for each array that the walk over the namespace meets, then the sections.
    What has not changed should be the same object in the next look: it is then neither compared nor encoded
    again. Derived classes leave out what their framework does not have.
    """

    def begin(self) -> bool:
        """Start a look; return False if there is nothing to see, and then nothing else is asked.

        There is nothing to see while the framework is not imported, has not started, or is used for
        something else, as TensorFlow for `tf.data` beside JAX.
        """
        ...

    def array_classes(self) -> tuple[type, ...]:
        """Return the classes whose instances, and those of derived classes, are arrays."""
        ...

    def mesh_classes(self) -> tuple[type, ...]:
        """Return the classes whose instances are meshes, to be given to `add_mesh`."""
        return ()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """List an array under a path; return False if it is not to be counted (deleted).

        Args:
          path: The expression that reaches it.
          array: An instance of one of `array_classes`.
          lent: The array belongs to a training step that may have given its memory away; its metadata holds.
        """
        ...

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """List again what the last look listed under a path with this shape; return False if it listed nothing.

        For a variable whose value a running training step has taken out for its time.
        """
        return False

    def add_mesh(self, mesh: Any) -> None:
        """List a mesh that was met by itself."""
        return

    def describe(self, array: Any) -> Array | None:
        """Return one array with an empty path, not listed, though its mesh is; None if it cannot be described."""
        ...

    def devices(self) -> tuple[Device, ...]:
        """Return this process's devices."""
        ...

    def meshes(self) -> tuple[Mesh, ...]:
        """Return the meshes of this look, by id."""
        return ()

    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of this look, in the order met."""
        ...

    def context_mesh(self) -> str | None:
        """Return the id of the mesh in context on the main thread; None if there is none."""
        return None

    def distributions(self) -> tuple[Distribution, ...]:
        """Return the distributions that are set now; their meshes must be in `meshes()`."""
        return ()

    def note(self) -> None:
        """Note what only the main thread knows; called there at each start and end of a cell."""
        return

    def hook(self) -> None:
        """Hook into the framework if it has just come; called before each look, also in the middle of a cell."""
        return

    def unhook(self) -> None:
        """Restore the framework to what it was without hooks."""
        return


class ModelObserver(Protocol):
    """An observer of the models of one framework, and of its distribution, for repeated looks."""

    def add_model(self, path: str, model: Any) -> None:
        """Take a model that the walk has met."""
        ...

    def look(self, describe: Describe, meshes: Callable[[], Mapping[str, Mesh]]) -> Models:
        """Return the sections as of now; keep no model afterwards.

        Args:
          describe: Describes the array that a variable holds.
          meshes: Returns the meshes of the arrays described so far, by id.
        """
        ...

    def note(self) -> None:
        """Note what only the main thread knows, as `Observer.note`."""
        ...

    def note_once(self) -> None:
        """Note what is set now, on the main thread, and leave the framework as it is."""
        ...

    def hook(self) -> None:
        """Hook into the framework, as `Observer.hook`."""
        ...

    def unhook(self) -> None:
        """Remove the hooks, as `Observer.unhook`."""
        ...


class Models(Protocol):
    """The result of one look of a `ModelObserver`: sections of a report."""

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """The distributions that are set now."""
        ...

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes of the distributions and the variables."""
        ...

    @property
    def models(self) -> tuple[Model, ...]:
        """The models that were added and have variables."""
        ...
