"""Pickles of a whole namespace: functions of cells keep it as their globals, arrays are numbers."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

NAMESPACE = "namespace"
"""Stands for the dictionary of the namespace itself."""

Reference = Callable[[Any], Any]
"""Answers what stands for an object in the pickle; None: the object is pickled."""


def packed(
    value: object, namespace: dict[str, Any], reference: Reference, reduce: Reference
) -> bytes:
    """Pickles what lies in a namespace.

    Args:
      value: Any object.
      namespace: The user's: the globals of functions defined in cells, which go along without it.
      reference: What stands for arrays, devices and their like.
      reduce: How an object is pickled (as `object.__reduce_ex__`), where its own way is not to be gone; None: so.

    Raises:
      Exception: Whatever pickling raises.
    """
    stream = io.BytesIO()
    packer = _packer()(stream, protocol=5)
    packer.begin(namespace, reference, reduce)
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
        """

        def begin(self, namespace: dict[str, Any], reference: Reference, reduce: Reference) -> None:
            self._namespace, self._reference, self._reduce = namespace, reference, reduce
            # Not empty: cloudpickle would fill it.
            self._stand_in = {"__name__": namespace.get("__name__", "__main__")}
            globals_ref = getattr(self, "globals_ref", None)
            if isinstance(globals_ref, dict):
                globals_ref[id(namespace)] = self._stand_in

        def persistent_id(self, obj: Any) -> Any:
            if obj is self._namespace or obj is self._stand_in:
                return NAMESPACE
            return self._reference(obj)

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, io.IOBase):
                # cloudpickle would read a file, and have its text in the place of it.
                raise pickle.PicklingError("it belongs to this process")
            reduced = self._reduce(obj)
            if reduced is not None:
                return reduced
            reduced = super().reducer_override(obj)
            if type(obj) is FunctionType and obj.__globals__ is self._namespace:
                _without_globals(reduced)
            return reduced

    return Packer


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

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            return namespace if pid == NAMESPACE else referent(pid)

    # Only ever from an engine of this session, which has its key.
    return Unpacker(io.BytesIO(data)).load()
