"""Pickles of values without their arrays, which travel beside them as raw bytes."""

from __future__ import annotations

import functools
import importlib
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

from nbdist.errors import ArrayError

Reference = Callable[[Any], Any]
"""Function that returns the stand-in for an object, such as an array's number; None: the object is pickled."""


StandIn = Callable[[Any], Any]
"""Function that returns what is pickled in place of an object; None: the object itself."""


def nothing(value: object) -> None:
    """Return None: no object has a stand-in."""


def packed(
    value: object, reference: Reference, *, code_by_value: bool, stand_in: StandIn = nothing
) -> bytes:
    """Pickle a value.

    Args:
      value: Any object.
      reference: Returns what stands for an array.
      code_by_value: Send the code of classes and functions of `__main__` along; otherwise whoever reads the pickle
        must have classes of the same names.
      stand_in: Returns what is pickled in place of some objects.

    Raises:
      Exception: Whatever pickling raises.
    """
    stream = io.BytesIO()
    packer = _packer()(stream, protocol=5)
    packer.reference, packer.code_by_value = reference, code_by_value
    packer.stand_in = stand_in
    packer.dump(value)
    return stream.getvalue()


@functools.cache
def _packer() -> Any:
    """Return a pickler class whose instances have a `reference`, `code_by_value` and `stand_in`.

    Made once: a class refers to itself, so a class made for one value would keep that value until the garbage
    collector looks.
    """
    # Imported here: an engine that moves no values needs none of it.
    import cloudpickle

    class ValuePacker(cloudpickle.Pickler):
        reference: Reference
        code_by_value: bool
        stand_in: StandIn

        def persistent_id(self, obj: Any) -> Any:
            return self.reference(obj)

        def reducer_override(self, obj: Any) -> Any:
            state = self.stand_in(obj)
            if state is not None:
                return _same, (state,)
            if not self.code_by_value and isinstance(obj, type) and obj.__module__ == "__main__":
                return found_class, ("__main__", obj.__qualname__)
            return super().reducer_override(obj)

    return ValuePacker


class _Unpacker(pickle.Unpickler):
    def __init__(self, data: Any, array: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._array = array

    def persistent_load(self, pid: Any) -> Any:
        return self._array(pid)

    def find_class(self, module: str, name: str) -> Any:
        return found_class(module, name) if module != "__main__" else _of_main(name)


def unpacked(data: Any, array: Callable[[Any], Any]) -> Any:
    """Return the value of a pickle; `array` returns what a reference in it stands for.

    Raises:
      ArrayError: The pickle has an object of a class that is not here.
      Exception: Whatever unpickling raises.
    """
    # Only ever from a kernel or engines of this session, which hold its key.
    return _Unpacker(data, array).load()


def found_class(module: str, name: str) -> Any:
    """Return a class or function by its name; called while a value is unpickled.

    Raises:
      ArrayError: It is not here; says how to go on.
    """
    if module == "__main__":
        return _of_main(name)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ArrayError(
            f"{module}.{name} cannot be imported ({error}): install it there, or send plain data."
        ) from error
    return found


def _of_main(name: str) -> Any:
    found: Any = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ArrayError(
            f"the class {name} is defined in a cell of the processes and not in this notebook. Define it here, "
            "too, or pull plain data: a dict of its fields."
        )
    return found


def _same(state: Any) -> Any:
    return state
