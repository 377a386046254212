"""A value in two parts: its arrays, described and read in pieces, and a pickle of the rest.

For an array that spans processes, a process has only the pieces on its own devices. Each imported framework is
asked through `Parts` about the parts of a value. `packed` pickles a value without its arrays.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbdist.contract.calls.values import ArrayOffer, Box
from nbdist.errors import ArrayError
from nbdist.notation import dtype_name, is_named

BLOCK_BYTES = 1 << 19
"""Bytes of a block, which stays in a core's cache; larger arrays are compared by checksums of such blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadablePiece:
    """A part of an array; `read` returns it as a NumPy array, which may take a copy from a device."""

    bounds: Box
    read: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedArray:
    """An array of this process, or its pieces of one that spans processes.

    Attributes:
      dtype: The name of its NumPy dtype, or the fields of a structured one.
      shape: The shape of the whole array.
      nbytes: The bytes of the whole array.
      sharding: How an array that spans processes is divided; None for one that is whole here.
      pieces: Each part that lies here, once.
    """

    dtype: Any
    shape: list[int]
    nbytes: int
    sharding: str | None = None
    pieces: list[ReadablePiece] = field(default_factory=list)

    def describe(self) -> ArrayOffer:
        """Return the description for the kernel."""
        return ArrayOffer(
            dtype=self.dtype,
            shape=tuple(self.shape),
            nbytes=self.nbytes,
            whole=self.sharding is None,
            pieces=tuple(piece.bounds for piece in self.pieces),
        )


def whole_of(shape: Iterable[int]) -> Box:
    """Return the bounds of a whole array."""
    return tuple((0, size) for size in shape)


def whole(array: Any) -> OfferedArray:
    """Return the offer of a NumPy array that lies on this process alone."""
    return OfferedArray(
        dtype=dtype_name(array.dtype),
        shape=list(array.shape),
        nbytes=array.nbytes,
        pieces=[ReadablePiece(bounds=whole_of(array.shape), read=lambda: array)],
    )


def readable(array: Any) -> Any:
    """Return a JAX array, or another array of the same memory if the array's own `addressable_shards` raises.

    With one device in each process, an array that `jax.device_put` has spread from this process alone claims to
    have a shard on all devices (`ValueError: … must have one shard each`, jax 0.10.0 to 0.12.0.1).
    """
    try:
        array.addressable_shards  # noqa: B018 - asked whether it raises
    except ValueError:
        make = sys.modules["jax"].make_array_from_single_device_arrays
        return make(array.shape, array.sharding, [array.addressable_data(0)])
    return array


SMALL_BYTES = 1 << 16
"""Largest array, in bytes, that is read from a device for a digest; reading it takes less than 0.1 ms."""


def small_values(array: Any) -> str | None:
    """Return a digest of the values of a small JAX array that lies wholly here; empty for anything else.

    This waits for nothing: None for an array that is not computed yet or cannot be read.
    """
    jax: Any = sys.modules.get("jax")
    if jax is None or not isinstance(array, jax.Array) or array.is_deleted():
        return ""
    try:
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        alone, copied = array.is_fully_addressable, array.is_fully_replicated
        if array.nbytes > SMALL_BYTES or not (alone or copied):
            return ""
        if not array.is_ready():
            return None
        count = 1 if copied else len(array.sharding.addressable_devices)
        with jax.transfer_guard_device_to_host("allow"):
            return "".join(digest(array.addressable_data(number)) for number in range(count))
    except Exception:  # noqa: BLE001 - a computation that has failed raises its error here
        return None


MOST_ITEM_BYTES = 1 << 20
"""Largest element, in bytes, of an array that is not pickled: no element goes into two messages."""


def is_numpy_array(value: Any) -> bool:
    """Return whether this is a NumPy array whose bytes say all; arrays of objects or of a subclass are pickled."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.hasobject:
        return False
    dtype = value.dtype
    return dtype.itemsize <= MOST_ITEM_BYTES and is_named(dtype_name(dtype), dtype)


def digest(array: Any) -> str:
    """Return a digest of an array's bytes: equal for equal bytes, and practically never for others.

    SHA-1 of a large array would take longer than sending it. Of each block, two sums of 64-bit words are hashed,
    each word times a weight of its own, modulo 2⁶⁴: one sum of the words, one of their upper halves. Over all
    choices of weights, two different blocks have the same sums with a probability of 2⁻³² at most: multilinear
    hashing, as in Lemire and Kaser, "Strongly universal string hashing is fast", 2014.
    """
    import numpy

    flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    found = hashlib.sha1(usedforsecurity=False)
    if flat.nbytes <= BLOCK_BYTES:
        found.update(flat)
        return found.hexdigest()
    of_words, of_halves = _weights()
    halves = numpy.empty_like(of_words)
    for start in range(0, flat.nbytes, BLOCK_BYTES):
        block = flat[start : start + BLOCK_BYTES]
        count = block.nbytes // 8
        words = block[: count * 8].view(numpy.uint64)
        numpy.right_shift(words, 32, out=halves[:count])
        found.update(numpy.dot(words, of_words[:count]).tobytes())
        found.update(numpy.dot(halves[:count], of_halves[:count]).tobytes())
        found.update(block[count * 8 :])
    return found.hexdigest()


@functools.cache
def _weights() -> tuple[Any, Any]:
    """Return the weights of words and of upper halves, the same on all processes and versions of NumPy."""
    import numpy

    words, halves = (
        numpy.frombuffer(hashlib.shake_128(name).digest(BLOCK_BYTES), "<u8")
        for name in (b"words", b"halves")
    )
    return words, halves


Children = Iterable[tuple[str, Any]]
"""The contents of a container: pairs of (the rest of the expression that reaches a value, the value)."""

OfferArray = Callable[[Any, str], OfferedArray | None]
"""A function of a value and its path that returns the offer of a framework's own array, None for anything else."""


class Parts:
    """Answers of a framework about the parts of a value; this base class knows no value.

    Each method is called with any object.
    """

    def unwrapped(self, value: Any) -> Any:
        """Return the array for a variable that is named by itself; anything else as it is."""
        return value

    def array_of(self, value: Any) -> Any:
        """Return the array for a variable wherever it is met; anything else as it is."""
        return value

    def stand_in(self, value: object) -> object | None:
        """Return what is sent in place of an object whose class the notebook may lack; None: the object itself."""
        return None

    def children(self, value: object) -> Children | None:
        """Return what a container of the framework holds; None for any other object."""
        return None

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        """Return a digest, equal for models of the same variables with equal values; None for anything else.

        Args:
          value: Any object.
          path: The expression that reaches the value, for error texts.
          offer_array: Offers arrays of the session's framework.

        Raises:
          ArrayError: A variable holds no values.
        """
        return None


def array_of(frameworks: Sequence[Parts], value: Any) -> Any:
    """Return the array that a variable of one of these frameworks stands for; anything else as it is."""
    for framework in frameworks:
        value = framework.array_of(value)
    return value


def stand_in(frameworks: Sequence[Parts], value: object) -> object | None:
    """Return what one of these frameworks sends in place of an object; None: the object itself."""
    found = (framework.stand_in(value) for framework in frameworks)
    return next((one for one in found if one is not None), None)


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
    # The pickle only ever comes from a kernel or engine of this session, which has the session's key.
    return _Unpacker(data, array).load()


def found_class(module: str, name: str) -> Any:
    """Return a class or function by its name; called while a value is unpickled.

    Raises:
      ArrayError: This process has no such class or function; the message says how to go on.
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
