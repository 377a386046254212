"""Looks at a process: devices, meshes, named arrays, distributions and models, through observers of frameworks.

Observers are called on the probe's thread, except `note`. None imports its framework, starts anything, calls
a collective, reads device memory or runs what users wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh, Model
from nbdist.engine.cell.stacks import Packaged, packages_of
from nbdist.engine.probe.classes import Lent, Library, bases_of
from nbdist.engine.probe.samples import SeenArray
from nbdist.engine.probe.walk import Bounds, Takers, Walk

Describe = Callable[[str | None, Any], Array | None]
"""Describes an array, from its path among the arrays or its value."""


class Observed(Packaged, Protocol):
    """A framework as the probe sees it. It is asked before each look, since it may just have been imported."""

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

        There is nothing to see while the framework is not imported, has not started, or does not compute, such as
        TensorFlow when used for `tf.data` beside JAX.
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

        Called for a variable whose value a running training step has taken out.
        """
        return False

    def add_mesh(self, mesh: Any) -> None:
        """List a mesh that was met by itself."""
        return

    def describe(self, array: Any) -> Array | None:
        """Return an array's description, with an empty path, or None; list its mesh, but not the array."""
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
        """Hook into the framework if it was just imported; called before each look, even during a cell."""
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


@dataclass(frozen=True, slots=True)
class Models:
    """The result of one look of a `ModelObserver`: sections of a report.

    Attributes:
      distributions: Those that are set now.
      meshes: The meshes of the distributions.
      models: The models that were added and have variables.
    """

    distributions: tuple[Distribution, ...]
    meshes: tuple[Mesh, ...]
    models: tuple[Model, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """Sections of a report."""

    devices: tuple[Device, ...]
    meshes: tuple[Mesh, ...]
    arrays: tuple[Array, ...]
    arrays_omitted: int
    distributions: tuple[Distribution, ...]
    models: tuple[Model, ...]


class NamespaceLook:
    """Repeated looks at a namespace; used from one thread, except `note`.

    Args:
      frameworks: All frameworks; one that others build on comes before them.
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      process_id: The number of this process in the launch plan.
      bounds: The limits of the walk over the namespace.
    """

    def __init__(
        self,
        frameworks: Sequence[Observed],
        *,
        main_thread: int,
        process_id: int,
        bounds: Bounds,
    ) -> None:
        self._waiting = dict(enumerate(frameworks))
        self._packages = packages_of(frameworks)
        self._main_thread = main_thread
        self._process_id = process_id
        self._bounds = bounds
        self._observers: list[Observer] = []
        self._models: list[ModelObserver] = []
        self._libraries: list[tuple[int, Library]] = []
        self._come()

    def now(self, namespace: dict[str, object]) -> Seen:
        """Return the sections as of now; hold no array afterwards."""
        self.hook()
        return self._see(namespace)

    def at_model(self, path: str, model: Any) -> Seen:
        """Return the sections of one model or layer; call this on the main thread, without hooks."""
        self._come()
        for models in self._models:
            models.note_once()
            models.add_model(path, model)
        return self._see({path: model})

    def has_layout(self, value: object) -> bool:
        """Return whether a value is a model or layer, to be given to `at_model`."""
        bases = bases_of(type(value))
        return any(library.has_layout(bases) for _, library in self._libraries)

    def _see(self, namespace: dict[str, object]) -> Seen:
        active = [observer for observer in self._observers if observer.begin()]
        takers = Takers(active)
        described: dict[str, Array] = {}

        def found(path: str, value: Any) -> bool:
            lent = type(value) is Lent
            array = value.array if lent else value
            if array is None:
                return any(observer.keep(path, value.shape) for observer in active)
            # The walk has checked the class of every array except a lent one.
            observer = active[0] if len(active) == 1 and not lent else takers.of(array)
            return observer is not None and observer.add(path, array, lent=lent)

        def describe(path: str | None, value: Any) -> Array | None:
            if not described:
                described.update((one.path, one) for o in active for one in o.arrays())
            listed = described.get(path) if path is not None else None
            if listed is not None:
                return listed
            observer = takers.of(value) if value is not None else None
            return observer.describe(value) if observer is not None else None

        walk = Walk(
            found=found,
            mesh=takers.add_mesh,
            model=self._add_model,
            packages=self._packages,
            libraries=[one for _, one in sorted(self._libraries, key=lambda one: -one[0])],
            arrays=takers.arrays,
            meshes=takers.meshes,
            bounds=self._bounds,
        )
        omitted = walk.run(namespace) if active else 0

        def met() -> Iterable[Mesh]:
            return (mesh for observer in active for mesh in observer.meshes())

        looks = [one.look(describe, lambda: _by_id(met())) for one in self._models]
        return Seen(
            devices=tuple(one for observer in active for one in observer.devices()),
            meshes=_sorted(_by_id((*met(), *(m for look in looks for m in look.meshes)))),
            arrays=tuple(one for observer in active for one in observer.arrays()),
            arrays_omitted=omitted,
            distributions=(
                *(one for look in looks for one in look.distributions),
                *(one for observer in active for one in observer.distributions()),
            ),
            models=tuple(one for look in looks for one in look.models),
        )

    def context_mesh(self) -> str | None:
        """Return the id of the mesh in context on the main thread; None if there is none."""
        found = (observer.context_mesh() for observer in self._observers)
        return next((one for one in found if one is not None), None)

    def note(self) -> None:
        """Note what only the main thread knows; called there at each start and end of a cell."""
        self._come()
        for one in self._every():
            one.note()

    def hook(self) -> None:
        """Hook into frameworks that have been imported meanwhile, also in the middle of a cell."""
        self._come()
        for one in self._every():
            one.hook()

    def unhook(self) -> None:
        """Restore the frameworks to what they were without hooks."""
        for one in self._every():
            one.unhook()

    def _every(self) -> tuple[Observer | ModelObserver, ...]:
        return (*self._observers, *self._models)

    def _add_model(self, path: str, model: Any) -> None:
        for models in self._models:
            models.add_model(path, model)

    def _come(self) -> None:
        """Add the observers of frameworks that have been imported meanwhile."""
        for rank, one in list(self._waiting.items()):
            # The main thread and the probe's thread may both be here: the one that pops a framework adds it.
            framework = self._waiting.pop(rank, None) if one.is_imported() else None
            if framework is None:
                continue
            if framework.library is not None:
                library = framework.library()
                self._libraries.append((rank, library))
                if framework.model_observer is not None:
                    self._models.append(framework.model_observer(self._main_thread, library))
            if framework.observer is not None:
                self._observers.append(framework.observer(self._main_thread, self._process_id))


def _by_id(meshes: Iterable[Mesh]) -> dict[str, Mesh]:
    return {mesh.id: mesh for mesh in meshes}


def _sorted(meshes: dict[str, Mesh]) -> tuple[Mesh, ...]:
    return tuple(meshes[name] for name in sorted(meshes))
