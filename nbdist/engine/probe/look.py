"""One look at a process: devices, meshes, named arrays, distributions and models, of all frameworks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.jax.observe import Observer as JaxObserver
from nbdist.engine.frameworks.keras.observe import KerasObserver
from nbdist.engine.frameworks.keras.variables import Lent
from nbdist.engine.probe.observer import Observer
from nbdist.engine.probe.walk import Bounds, Walk


@dataclass(frozen=True, slots=True)
class Seen:
    """Sections of a report, as plain data."""

    devices: list[dict[str, Any]]
    meshes: list[dict[str, Any]]
    arrays: list[dict[str, Any]]
    arrays_omitted: int
    distributions: list[dict[str, Any]]
    models: list[dict[str, Any]]


class Look:
    """Looks at a namespace again and again; used from one thread, but for `note`.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      process_id: Of this process, from the launch plan.
      bounds: How far the walk over the namespace goes.
    """

    def __init__(self, *, main_thread: int, process_id: int, bounds: Bounds) -> None:
        self._main_thread = main_thread
        self._process_id = process_id
        self._bounds = bounds
        self._jax = JaxObserver(main_thread)
        self._observers: list[Observer] = [self._jax]
        self._keras = KerasObserver(main_thread, self._jax.meshes_known)

    def now(self, namespace: dict[str, object]) -> Seen:
        """What there is now; holds no array afterwards."""
        self.hook()
        return self._see(namespace)

    def at_model(self, path: str, model: Any) -> Seen:
        """What there is of one Keras model or layer; on the main thread, and without hooks."""
        self._come()
        for observer in self._observers[1:]:
            observer.note()
        self._keras.note_once()
        self._keras.add_model(path, model)
        return self._see({path: model})

    def _see(self, namespace: dict[str, object]) -> Seen:
        active = [observer for observer in self._observers if observer.begin()]
        takers = [(observer, observer.array_classes()) for observer in active]

        def taker(value: Any) -> Observer | None:
            bases = type(value).__mro__
            return next((o for o, classes in takers if any(c in bases for c in classes)), None)

        described: dict[str, dict[str, Any]] = {}

        def found(path: str, value: Any) -> bool:
            lent = type(value) is Lent
            array = value.array if lent else value
            if array is None:
                return any(observer.keep(path, value.shape) for observer in active)
            # The walk has looked at the class of everything but what is lent.
            observer = active[0] if len(active) == 1 and not lent else taker(array)
            return observer is not None and observer.add(path, array, lent=lent)

        def describe(path: str | None, value: Any) -> dict[str, Any] | None:
            if not described:
                described.update((one["path"], one) for o in active for one in o.arrays())
            if path in described:
                return described[path]
            observer = taker(value) if value is not None else None
            return observer.describe(value) if observer is not None else None

        def mesh(value: Any) -> None:
            for observer in active:
                if isinstance(value, observer.mesh_classes()):
                    observer.add_mesh(value)

        walk = Walk(
            found=found,
            mesh=mesh,
            model=self._keras.add_model,
            places=self._keras.places,
            arrays=tuple(one for _, classes in takers for one in classes),
            meshes=tuple(one for observer in active for one in observer.mesh_classes()),
            bounds=self._bounds,
        )
        omitted = walk.run(namespace) if active else 0
        of_keras = self._keras.look(describe, lambda: _by_id(m for o in active for m in o.meshes()))
        return Seen(
            devices=[one for observer in active for one in observer.devices()],
            meshes=_sorted(_by_id([*(m for o in active for m in o.meshes()), *of_keras.meshes])),
            arrays=[one for observer in active for one in observer.arrays()],
            arrays_omitted=omitted,
            distributions=[
                *of_keras.distributions,
                *(one for observer in active for one in observer.distributions()),
            ],
            models=of_keras.models,
        )

    def context_mesh(self) -> str | None:
        """The id of JAX's mesh in context on the main thread."""
        return self._jax.context_mesh()

    def note(self) -> None:
        """Called on the main thread at each start and end of a cell."""
        for observer in self._observers:
            observer.note()
        self._keras.note()

    def hook(self) -> None:
        """Hooks into what has been imported meanwhile, also in the middle of a cell."""
        self._come()
        for observer in self._observers:
            observer.hook()
        self._keras.hook()

    def unhook(self) -> None:
        """Leaves the frameworks as they were."""
        for observer in self._observers:
            observer.unhook()
        self._keras.unhook()

    def _come(self) -> None:
        """Takes an observer of TensorFlow in once the user has imported it."""
        if len(self._observers) > 1 or "tensorflow" not in sys.modules:
            return
        module = importlib.import_module("nbdist.engine.frameworks.tensorflow.observe")
        observer: Observer = module.Observer(self._main_thread, self._process_id)
        self._observers = [self._jax, observer]


def _by_id(meshes: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {mesh["id"]: mesh for mesh in meshes}


def _sorted(meshes: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [meshes[name] for name in sorted(meshes)]
