"""Pickles of a whole namespace: functions of cells keep it as their globals, arrays are numbers."""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CellType, FunctionType
from typing import Any

NAMESPACE = "namespace"
"""Stands for the dictionary of the namespace itself."""

MODULE, MODULE_NAMES = "a module", "the names of a module"
"""Stand for one of the user's modules, before its name, and for its dictionary."""

Reference = Callable[[Any], Any]
"""Answers what stands for an object in the pickle; None: the object is pickled."""


def packed(
    value: object,
    namespace: dict[str, Any],
    reference: Reference,
    reduce: Reference,
    modules: Collection[str] = (),
) -> bytes:
    """Pickles what lies in a namespace.

    Args:
      value: Any object.
      namespace: The user's: the globals of functions defined in cells, which go along without it.
      reference: What stands for arrays, devices and their like.
      reduce: How an object is pickled (as `object.__reduce_ex__`), where its own way is not to be gone; None: so.
      modules: Modules whose functions and classes go along as they are; see `nbdist.engine.namespace.modules`.

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
    """Pickle several values, one behind the other; what they share stays shared. See `packed`."""
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
        """Of a function it takes the code; the globals of functions from cells stay one namespace.

        Private API: `globals_ref` of cloudpickle 3.1's `Pickler` has what stands for the globals of functions, and
        the state that it gives of one ends with those that it uses. Where either is gone, functions have a
        namespace of their own on the other side, which `nbdist.engine.namespace.incoming` refuses.

        What several functions share stays shared: variables that they have captured, and memory of arrays.
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
                # Not empty: cloudpickle would fill it.
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
                # cloudpickle would read a file, and have its text in the place of it.
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
            """Has functions that share a variable get one cell: each would get cells of its own.

            Private API: what cloudpickle 3.1 makes of a function ends with as many empty cells as it has captured,
            which are filled when all is there. Where that is otherwise, functions share nothing any more.
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
"""References to memory that one array alone uses, where two more are those of who counts them."""


class _Captured:
    """In place of a variable that functions have captured, so that it is made once; keeps it alive."""

    def __init__(self, cell: CellType) -> None:
        self.cell = cell


def is_view(value: Any) -> bool:
    """Whether it is an array of NumPy in memory of another one that others use as well."""
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
    """How such an array is made again."""
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
    """What a function uses of the namespace is there by its name."""
    if isinstance(reduced, tuple) and len(reduced) > 2:
        state = reduced[2]
        if isinstance(state, tuple) and len(state) == 2 and "__globals__" in state[1]:
            state[1]["__globals__"] = {}


def unpacked(data: Any, namespace: dict[str, Any], referent: Reference) -> Any:
    """The value; `referent` answers for what stands in place of arrays, devices and their like.

    Raises:
      Exception: Whatever unpickling raises.
    """
    return next(unpacked_each(data, namespace, referent))


def unpacked_each(data: Any, namespace: dict[str, Any], referent: Reference) -> Iterator[Any]:
    """Yield the values of `packed_each`; behind one that raises, none can be made. See `unpacked`."""

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

    # Only ever from an engine of this session, which has its key.
    stream = io.BytesIO(data)
    unpacker = Unpacker(stream)
    while stream.tell() < len(data):
        yield unpacker.load()
