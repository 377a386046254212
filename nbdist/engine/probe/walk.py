"""The named arrays of a namespace, near ones first, to a bounded depth and number."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.probe.contents import Container, Kind, Known, Leaf, kind_of
from nbdist.engine.probe.library import Library

IPYTHON_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})

_NOTHING = (
    *(int, float, complex, bool, str, bytes, bytearray, type(None), type, set, frozenset, range),
    *(slice, property, object, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
    *(types.MethodType, types.GeneratorType, types.CoroutineType),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of a walk.

    `depth` counts steps of the expression; `plain_depth` counts steps through objects that are not known to hold
    arrays (no dataclass, pytree or module of a framework). `containers` and `arrays` are totals;
    `containers_in_one` keeps one long list from using them all. At most `items` are looked at in one container:
    a longer one is a data set rather than parameters.
    """

    depth: int = 12
    plain_depth: int = 2
    containers: int = 6000
    containers_in_one: int = 1000
    arrays: int = 2000
    items: int = 4096


@dataclass(frozen=True, slots=True)
class _Place:
    """A container to look into, and the containers that lead to it."""

    path: str
    value: Any
    container: Container
    depth: int
    plain_depth: int
    within: tuple[int, ...]


def _nothing(path: str, model: Any) -> None:
    """Ignore a model."""


class Walk:
    """One pass over a namespace.

    Args:
      found: Called with the path and the value of each array, up to the bound; returns False for an array
        that is not to be counted (deleted).
      mesh: Called with each mesh met.
      arrays: The classes of arrays; derived classes count as well.
      meshes: The classes of meshes.
      bounds: The limits of the walk.
      packages: The packages of the frameworks that have been imported.
      libraries: Know the containers of these frameworks; a framework that builds on another comes before it.
      model: Called with the path of each model met, and the model.

    Attributes:
      omitted: How many arrays were met beyond the bound, or under keys that no expression reaches.
      closed: How many containers were not looked into, since they lie too deep or are too many.
    """

    def __init__(
        self,
        *,
        found: Callable[[str, Any], bool],
        mesh: Callable[[Any], None],
        arrays: tuple[type, ...],
        meshes: tuple[type, ...],
        bounds: Bounds,
        packages: frozenset[str],
        libraries: Sequence[Library],
        model: Callable[[str, Any], None] = _nothing,
    ) -> None:
        self._found = found
        self._mesh = mesh
        self._model = model
        self._bounds = bounds
        self._known = Known(arrays, meshes, packages, tuple(libraries))
        # By identity: a metaclass may define `__hash__` and `__eq__`. The class is kept beside it,
        # for the length of the walk, so that no other gets its identity.
        self._kinds: dict[int, tuple[type, Kind]] = {
            id(cls): (cls, Leaf.NOTHING) for cls in _NOTHING
        }
        self._queue: deque[_Place] = deque()
        self._containers = 0
        self._arrays = 0
        self.omitted = 0
        self.closed = 0

    def run(self, namespace: dict[str, object]) -> int:
        """Walk over the namespace; return `omitted`."""
        roots = [
            (name, value)
            for name, value in _copy(namespace)
            if not name.startswith("_") and name not in IPYTHON_NAMES
        ]
        self._look(roots, lambda _, name: name, depth=0, plain_depth=0, within=())
        while self._queue:
            place = self._queue.popleft()
            container = place.container
            self._look(
                container.look(place.value, self._bounds.items),
                container.step,
                path=place.path,
                depth=place.depth + 1,
                plain_depth=place.plain_depth + container.plain,
                within=(*place.within, id(place.value)),
            )
        return self.omitted

    def _look(
        self,
        pairs: Iterable[tuple[Any, Any]],
        step: Callable[[str, Any], str | None],
        *,
        depth: int,
        plain_depth: int,
        within: tuple[int, ...],
        path: str = "",
    ) -> None:
        kinds, bounds, room = self._kinds, self._bounds, self._bounds.containers_in_one
        for key, value in pairs:
            cls = type(value)
            entry = kinds.get(id(cls))
            if entry is None:
                entry = kinds[id(cls)] = (cls, kind_of(cls, self._known))
            kind = entry[1]
            if kind is Leaf.NOTHING:
                continue
            if kind is Leaf.MESH:
                self._mesh(value)
                continue
            way = step(path, key)
            if way is None:
                self.omitted += kind is Leaf.ARRAY
                continue
            if kind is Leaf.ARRAY:
                self._array(way, value)
            elif isinstance(kind, Container):
                too_deep = depth >= bounds.depth or plain_depth + kind.plain > bounds.plain_depth
                if id(value) in within:
                    continue
                if too_deep or not room or self._containers >= bounds.containers:
                    self.closed += 1
                else:
                    room -= 1
                    self._containers += 1
                    if kind.model:
                        self._model(way, value)
                    self._queue.append(_Place(way, value, kind, depth, plain_depth, within))

    def _array(self, path: str, array: Any) -> None:
        if self._arrays >= self._bounds.arrays:
            self.omitted += 1
        elif self._found(path, array):
            self._arrays += 1


def _copy(namespace: dict[str, object]) -> list[tuple[str, object]]:
    # The main thread may define names meanwhile.
    for _ in range(3):
        try:
            return [pair for pair in list(dict.items(namespace)) if type(pair[0]) is str]
        except RuntimeError:
            continue
    return []
