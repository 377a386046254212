"""One look at a process: devices, meshes, named arrays, distributions and models, of all frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Array, Device, Distribution, Mesh, Model
from nbdist.engine.cell.code_owners import packages_of
from nbdist.engine.probe.classes import Lent, Library, bases_of
from nbdist.engine.probe.observer import ModelObserver, Observed, Observer
from nbdist.engine.probe.walk import Bounds, Walk


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
      frameworks: All there are, those that others build on first.
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
        takers = [(observer, observer.array_classes()) for observer in active]

        def taker(value: Any) -> Observer | None:
            bases = type(value).__mro__
            return next((o for o, classes in takers if any(c in bases for c in classes)), None)

        described: dict[str, Array] = {}

        def found(path: str, value: Any) -> bool:
            lent = type(value) is Lent
            array = value.array if lent else value
            if array is None:
                return any(observer.keep(path, value.shape) for observer in active)
            # The walk has checked the class of every array except a lent one.
            observer = active[0] if len(active) == 1 and not lent else taker(array)
            return observer is not None and observer.add(path, array, lent=lent)

        def describe(path: str | None, value: Any) -> Array | None:
            if not described:
                described.update((one.path, one) for o in active for one in o.arrays())
            listed = described.get(path) if path is not None else None
            if listed is not None:
                return listed
            observer = taker(value) if value is not None else None
            return observer.describe(value) if observer is not None else None

        def mesh(value: Any) -> None:
            for observer in active:
                if isinstance(value, observer.mesh_classes()):
                    observer.add_mesh(value)

        walk = Walk(
            found=found,
            mesh=mesh,
            model=self._add_model,
            packages=self._packages,
            libraries=[one for _, one in sorted(self._libraries, key=lambda one: -one[0])],
            arrays=tuple(one for _, classes in takers for one in classes),
            meshes=tuple(one for observer in active for one in observer.mesh_classes()),
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
        for observer in self._observers:
            observer.note()
        for models in self._models:
            models.note()

    def hook(self) -> None:
        """Hook into frameworks that have been imported meanwhile, also in the middle of a cell."""
        self._come()
        for observer in self._observers:
            observer.hook()
        for models in self._models:
            models.hook()

    def unhook(self) -> None:
        """Restore the frameworks to what they were without hooks."""
        for observer in self._observers:
            observer.unhook()
        for models in self._models:
            models.unhook()

    def _add_model(self, path: str, model: Any) -> None:
        for models in self._models:
            models.add_model(path, model)

    def _come(self) -> None:
        """Add the observers of frameworks that have been imported meanwhile."""
        for rank, one in list(self._waiting.items()):
            # The main thread and the probe's may both be here: the one that pops a framework adds it.
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
