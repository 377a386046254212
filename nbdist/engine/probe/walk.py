"""Walk over a namespace: its named arrays, near ones first, to a bounded depth and number.

Each array comes with the expression that reaches it through dicts, lists, tuples, attributes and the containers of
frameworks. No user code is run: no property, `__getattr__`, `__iter__` or `__len__` of a user's class is called.
Instances are read through the descriptors of their classes, and classes through `type`'s own.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import math
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from nbdist.engine.probe.classes import (
    Lent,
    Library,
    bases_of,
    class_dict,
    dict_items,
    gives_what_it_keeps,
    lookup,
    package,
)

NOT_LOOKED_INTO = sys.stdlib_module_names | {
    *("IPython", "PIL", "absl", "grain", "ipykernel", "ipyparallel", "jupyter_client"),
    *("matplotlib", "nbdist", "numpy", "orbax", "pandas", "pyarrow"),
    *("scipy", "sklearn", "torch", "tornado", "tqdm", "traitlets", "zmq"),
}
"""Packages, besides those of frameworks, whose plain objects hold no named arrays and can be large."""


class Leaf(Enum):
    """Kinds of objects that are not looked into."""

    ARRAY = "array"
    MESH = "mesh"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Container:
    """Way to look into the objects of one class.

    `look` lists pairs of a key and a value, up to a given number; `step` returns the expression that reaches a
    value, or None if there is none. `plain` marks objects that are not known to hold arrays, `model` objects
    whose variables are shown together.
    """

    look: Callable[[Any, int], Iterable[tuple[Any, Any]]]
    step: Callable[[str, Any], str | None]
    plain: bool = False
    model: bool = False


class Taker(Protocol):
    """An object that takes the arrays and meshes of one framework as a walk meets them."""

    def array_classes(self) -> tuple[type, ...]:
        """Return the classes whose instances, and those of derived classes, are arrays."""

    def mesh_classes(self) -> tuple[type, ...]:
        """Return the classes whose instances are meshes."""

    def add_mesh(self, mesh: Any) -> None:
        """Take a mesh that was met by itself."""


T = TypeVar("T", bound=Taker)


class Takers(Generic[T]):
    """The takers of a walk, each for the arrays and meshes of its classes."""

    def __init__(self, takers: Iterable[T]) -> None:
        self._all = tuple(takers)
        self._by_class = [(one, one.array_classes()) for one in self._all]
        self.arrays = tuple(kind for _, classes in self._by_class for kind in classes)
        self.meshes = tuple(kind for one in self._all for kind in one.mesh_classes())

    def of(self, array: Any) -> T | None:
        """Return the taker of an array; None for anything else."""
        bases = type(array).__mro__
        return next((one for one, kinds in self._by_class if any(k in bases for k in kinds)), None)

    def add_mesh(self, mesh: Any) -> None:
        """Give a mesh to each taker of its class."""
        for one in self._all:
            if isinstance(mesh, one.mesh_classes()):
                one.add_mesh(mesh)


Kind = Leaf | Container


@dataclass(frozen=True, slots=True)
class KnownFrameworks:
    """The arrays, meshes and containers of the frameworks that have been imported.

    `packages` are the frameworks' own: only classes of these packages count as arrays and meshes, since a class
    that a user derives may run any code; and other objects of these packages hold no named arrays.
    """

    arrays: tuple[type, ...]
    meshes: tuple[type, ...]
    packages: frozenset[str]
    libraries: tuple[Library, ...]


def kind_of(cls: type, known: KnownFrameworks) -> Kind:
    """Return how objects of exactly this class are treated."""
    bases = bases_of(cls)
    if package(cls) in known.packages:
        if _has_any(bases, known.arrays):
            return Leaf.ARRAY
        if _has_any(bases, known.meshes):
            return Leaf.MESH
    if cls is Lent:
        return Leaf.ARRAY
    for base, container in _BUILT_IN.items():
        if any(b is base for b in bases):
            return container(cls)
    for library in known.libraries:
        look = library.look_into(bases)
        if look is not None:
            return Container(_all(look), _suffix, model=library.is_model(bases))
    return _object(cls, bases, known)


def _all(
    look: Callable[[Any], Iterable[tuple[Any, Any]]],
) -> Callable[[Any, int], Iterable[tuple[Any, Any]]]:
    """Ignore the limit on pairs: a framework keeps few values in one of its own containers."""
    return lambda value, _: look(value)


def _has_any(bases: tuple[type, ...], wanted: tuple[type, ...]) -> bool:
    return any(base is one for one in wanted for base in bases)


def _suffix(path: str, rest: Any) -> str | None:
    return f"{path}{rest}"


def _item(path: str, key: Any) -> str | None:
    return f"{path}[{key!r}]" if _is_plain(key) else None


def _is_plain(key: Any) -> bool:
    """Return whether the `repr` of a key is an expression for it and runs nobody's code."""
    if type(key) is tuple:
        return all(map(_is_plain, key))
    if type(key) is float:
        return math.isfinite(key)
    return key is None or type(key) in (str, int, bool, bytes)


def _dict(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not dict.__dict__["__getitem__"]:
        return Leaf.NOTHING
    return Container(dict_items, _item)


def _list(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not list.__dict__["__getitem__"]:
        return Leaf.NOTHING
    return Container(lambda items, most: enumerate(list.__getitem__(items, slice(most))), _item)


def _tuple(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not tuple.__dict__["__getitem__"]:
        return Leaf.NOTHING
    fields = lookup(cls, "_fields")
    if type(fields) is tuple and all(_is_field(cls, name) for name in fields):
        return Container(
            lambda items, _: zip(fields, tuple.__iter__(items), strict=False), _attribute
        )
    return Container(lambda items, most: enumerate(tuple.__getitem__(items, slice(most))), _item)


_BUILT_IN: dict[type, Callable[[type], Kind]] = {
    dict: _dict,
    list: _list,
    tuple: _tuple,
    type: lambda cls: Leaf.NOTHING,
}


def _is_field(cls: type, name: object) -> bool:
    # The C type of the fields that `collections.namedtuple` makes.
    getter = lookup(cls, name) if type(name) is str else None
    return type(getter).__name__ == "_tuplegetter"


def _attribute(path: str, name: Any) -> str | None:
    return f"{path}.{name}"


def _object(cls: type, bases: tuple[type, ...], known: KnownFrameworks) -> Kind:
    dataclass_ = "__dataclass_fields__" in itertools.chain.from_iterable(map(class_dict, bases))
    holds = any(library.holds_arrays(cls, bases) for library in known.libraries)
    foreign = package(cls) in NOT_LOOKED_INTO | known.packages and cls is not types.SimpleNamespace
    if foreign and not holds:
        return Leaf.NOTHING
    if not gives_what_it_keeps(bases):
        return Leaf.NOTHING
    look = _attributes(cls)
    plain = not (dataclass_ or holds)
    return Container(look, _attribute, plain=plain) if look else Leaf.NOTHING


def _attributes(cls: type) -> Callable[[Any, int], Iterable[tuple[str, Any]]] | None:
    """Return a function that lists the public attributes kept in a class's instances; None if they keep none."""
    instance_dict = lookup(cls, "__dict__")
    keeps_dict = type(instance_dict) in (types.GetSetDescriptorType, types.MemberDescriptorType)
    slots = {
        name: member
        for base in reversed(bases_of(cls))
        for name, member in class_dict(base).items()
        if type(member) is types.MemberDescriptorType and not name.startswith("_")
    }
    if not keeps_dict and not slots:
        return None

    @functools.cache
    def reachable(name: Any) -> bool:
        if type(name) is not str or name.startswith("_") or not name.isidentifier():
            return False
        # A property of this name would answer in place of what the instance keeps.
        return not keyword.iskeyword(name) and not _is_data_descriptor(lookup(cls, name))

    def look(instance: Any, most: int) -> Iterable[tuple[str, Any]]:
        if keeps_dict:
            for name, value in dict_items(instance_dict.__get__(instance), most):
                if reachable(name):
                    yield name, value
        for name, member in slots.items():
            try:
                yield name, member.__get__(instance)
            except AttributeError:
                continue

    return look


def _is_data_descriptor(found: Any) -> bool:
    bases = bases_of(type(found))
    return any("__set__" in class_dict(b) or "__delete__" in class_dict(b) for b in bases)


IPYTHON_NAMES = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""Names without an underscore that IPython sets in a namespace."""

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
        self._known = KnownFrameworks(arrays, meshes, packages, tuple(libraries))
        # By identity: a metaclass may define `__hash__` and `__eq__`. The class is kept for the length of the
        # walk, so that no other class gets its identity.
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
