"""Pickles of a whole namespace, made of entries that may each fail by themselves.

On the other process too, functions of cells have the namespace as their globals, and share the variables that they
have captured. With cloudpickle alone, each function would have a namespace of its own there. Numbers stand for
arrays, which travel beside the pickle.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import CellType, FunctionType
from typing import Any

from nbdist.engine.namespace.modules import put
from nbdist.engine.namespace.things import Objects, Placements

NAMESPACE = "namespace"
"""Stand-in for the dictionary of the namespace itself."""

MODULE, MODULE_NAMES = "a module", "the names of a module"
"""Stand-ins for one of the user's modules, and for its dictionary; the name of the module follows."""

Reference = Callable[[Any], Any]
"""Function that returns the stand-in for an object in the pickle; None where the object itself is pickled."""


def packed(
    value: object,
    namespace: dict[str, Any],
    reference: Reference,
    reduce: Reference,
    modules: Collection[str] = (),
) -> bytes:
    """Pickle a value of a namespace.

    Args:
      value: Any object.
      namespace: The user's, which functions defined in cells have as globals; these are sent without it.
      reference: Returns the stand-ins for arrays, devices and their like.
      reduce: Returns how to pickle an object (as `object.__reduce_ex__`); None for the object's own way.
      modules: Modules whose functions and classes are sent by value; see `nbdist.engine.namespace.modules`.

    Raises:
      Exception: Whatever pickling raises.
    """
    return packed_each([value], namespace, reference, reduce, modules)


def packed_each(
    values: Iterable[object],
    namespace: dict[str, Any],
    reference: Reference,
    reduce: Reference,
    modules: Collection[str] = (),
) -> bytes:
    """Pickle several values, one behind the other; objects that they share stay shared. See `packed`."""
    stream = io.BytesIO()
    packer = _packer()(stream, protocol=5)
    packer.begin(namespace, reference, reduce, modules)
    for value in values:
        packer.dump(value)
    return stream.getvalue()


@functools.cache
def _packer() -> Any:
    # Imported here: only few engines ever need it.
    import cloudpickle

    class Packer(cloudpickle.Pickler):
        """Pickler that takes the code of functions; functions from cells keep one namespace as their globals.

        Private API: `globals_ref` of cloudpickle 3.1's `Pickler` has the stand-in for the globals of functions.
        The state that this pickler returns of a function ends with the globals that the function uses. Where
        either is gone, functions have a namespace of their own on the other side.

        Functions that share captured variables, or the memory of arrays, still share them on the other side.
        """

        def begin(
            self,
            namespace: dict[str, Any],
            reference: Reference,
            reduce: Reference,
            modules: Collection[str],
        ) -> None:
            self._reference, self._reduce = reference, reduce
            names: list[tuple[dict[str, Any], Any]] = [(namespace, NAMESPACE)]
            names += [(vars(sys.modules[name]), (MODULE_NAMES, name)) for name in modules]
            self._cells: dict[int, _Captured] = {}
            globals_ref = getattr(self, "globals_ref", None)
            self._ids: dict[int, Any] = {id(sys.modules[name]): (MODULE, name) for name in modules}
            self._stand_ins = []
            self._globals = {id(its) for its, _ in names}
            for its, stands_for in names:
                # Not empty: cloudpickle would fill an empty one.
                stand_in = {"__name__": its.get("__name__", "__main__")}
                self._stand_ins.append(stand_in)
                self._ids |= {id(its): stands_for, id(stand_in): stands_for}
                if isinstance(globals_ref, dict):
                    globals_ref[id(its)] = stand_in

        def persistent_id(self, obj: Any) -> Any:
            found = self._ids.get(id(obj))
            return self._reference(obj) if found is None else found

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, io.IOBase):
                # cloudpickle would read the file, and pickle its text in its place.
                raise pickle.PicklingError("it belongs to this process")
            reduced = self._reduce(obj)
            if reduced is not None:
                return reduced
            if type(obj) is _Captured:
                return CellType, ()
            view = _view(obj)
            if view is not None:
                return view
            reduced = super().reducer_override(obj)
            if type(obj) is FunctionType:
                if id(obj.__globals__) in self._globals:
                    _without_globals(reduced)
                reduced = self._with_cells(reduced, obj.__closure__ or ())
            return reduced

        def _with_cells(self, reduced: Any, closure: tuple[CellType, ...]) -> Any:
            """Give functions that share a variable one cell; by default each would get cells of its own.

            Private API: the arguments with which cloudpickle 3.1 makes a function end with an empty cell for each
            captured variable; cells are filled when all objects are there. Where this is otherwise, functions
            share nothing.
            """
            if not (isinstance(reduced, tuple) and isinstance(reduced[1], tuple) and closure):
                return reduced
            *others, cells = reduced[1]
            if not (isinstance(cells, tuple) and len(cells) == len(closure)):
                return reduced
            shared = tuple(self._cells.setdefault(id(c), _Captured(c)) for c in closure)
            return reduced[0], (*others, shared), *reduced[2:]

    return Packer


ALONE = 3
"""Reference count of memory that one array alone uses, including the two references of the code that counts."""


class _Captured:
    """Stand-in for a variable that functions have captured, so that it is made once; keeps its cell alive."""

    def __init__(self, cell: CellType) -> None:
        self.cell = cell


def is_view(value: Any) -> bool:
    """Return whether a value is a NumPy array in memory that other arrays use as well."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.hasobject:
        return False
    base = value.base
    return (
        type(base) is numpy.ndarray
        and sys.getrefcount(base) > ALONE
        and base.base is None
        and bool(base.flags.c_contiguous)
        and not base.dtype.hasobject
    )


def _view(value: Any) -> Any | None:
    """Return how to make an array again for which `is_view` is true; None for any other value."""
    if not is_view(value):
        return None
    base = value.base
    at = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return view_of, (base, value.shape, value.dtype, at, value.strides, value.flags.writeable)


def view_of(base: Any, shape: Any, dtype: Any, at: int, strides: Any, writeable: bool) -> Any:
    """Make the array that `_view` has described; called while a namespace is unpickled."""
    import numpy

    found = numpy.ndarray(shape, dtype, base, at, strides)
    found.flags.writeable = writeable and base.flags.writeable
    return found


def _without_globals(reduced: Any) -> None:
    """Remove the globals from a function's state: they are in the namespace by name."""
    if isinstance(reduced, tuple) and len(reduced) > 2:
        state = reduced[2]
        if isinstance(state, tuple) and len(state) == 2 and "__globals__" in state[1]:
            state[1]["__globals__"] = {}


def unpacked(data: Any, namespace: dict[str, Any], referent: Reference) -> Any:
    """Return the value of a pickle; `referent` returns the array, device or the like for a stand-in.

    Raises:
      Exception: Whatever unpickling raises.
    """
    return next(unpacked_each(data, namespace, referent))


def unpacked_each(data: Any, namespace: dict[str, Any], referent: Reference) -> Iterator[Any]:
    """Yield the values of `packed_each`; after one that raises, no other can be made. See `unpacked`."""

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            match pid:
                case "namespace":
                    return namespace
                case (str() as kind, name) if kind == MODULE:
                    return sys.modules[name]
                case (str() as kind, name) if kind == MODULE_NAMES:
                    return vars(sys.modules[name])
            return referent(pid)

    # The pickle only ever comes from an engine of this session, which has its key.
    stream = io.BytesIO(data)
    unpacker = Unpacker(stream)
    while stream.tell() < len(data):
        yield unpacker.load()


class Kind(Enum):
    """Kinds of entries, in the order in which they come; the value is the text that a person reads."""

    PLACEMENTS = "a setting"
    MODULE = "values of a module"
    NAME = "a name"
    HOOK = "a function for recoveries"
    FRAMEWORK = "settings of a framework"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a namespace for another process, with the number it had when it was first packed."""

    number: int
    kind: Kind
    name: str


@dataclass(slots=True)
class EntrySetter:
    """A setter of arriving entries; each is set as soon as it is made, since later ones may need it.

    Args:
      namespace: The user's dictionary on this process.
      placements: Of the framework that the session computes with.
      objects: Returns the `Objects` of a framework, by name.
    """

    namespace: dict[str, Any]
    placements: Placements
    objects: Callable[[str], Objects | None]
    names: list[str] = field(default_factory=list)
    hooks: dict[str, Any] = field(default_factory=dict)

    def set(self, entry: Entry, value: Any) -> None:
        """Set one entry.

        Raises:
          Exception: Whatever a framework or a module raises.
        """
        match entry.kind:
            case Kind.PLACEMENTS:
                self.placements.set(value)
            case Kind.MODULE:
                put({entry.name: value})
            case Kind.NAME:
                self.namespace[entry.name] = value
                self.names.append(entry.name)
            case Kind.HOOK:
                self.hooks[entry.name] = value
            case Kind.FRAMEWORK:
                its = self.objects(entry.name)
                if its is not None:
                    its.set(value)
