"""Values of this process on their way to a kernel: taken apart, compared, and sent piece by piece.

`ValueTree` lists all that a value holds by the path that leads to it, so that the values of two processes can be
compared and a difference can be named. `Outgoing` holds one value from its offer until the kernel has it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from nbdist.contract.calls.values import MemoryAddress, OfferedBox, Spot, ValueOffer
from nbdist.engine.probe.classes import captured, code_digest
from nbdist.engine.values.arrays import (
    Children,
    OfferArray,
    OfferedArray,
    Parts,
    array_of,
    digest,
    is_numpy_array,
    packed,
    stand_in,
    whole,
)
from nbdist.engine.values.incoming import ArraySource
from nbdist.errors import ArrayError, error_text
from nbdist.machine.sealed import OpenedMemory
from nbdist.notation import array_type_text, dtype_named

SHORT = 40
"""Largest number of characters of a value in an error text."""

MOST_LISTED = 1000
"""Most plain values in a container that are compared one by one; in a larger one they are compared as a whole."""

MANY_NODES = 100_000
"""Places in a value, after which a container that is met again is not looked into: its paths may grow without
end."""

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...))
_MAPPINGS = (dict, OrderedDict, defaultdict)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type)
_NEVER_ARRAYS = frozenset((*_PLAIN, *_MAPPINGS, *_CODE, list, tuple, set, frozenset))


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A place in a value; its `digest` covers the object there, without what the object contains."""

    path: str
    digest: str
    text: str


class ValueTree:
    """A value taken apart: its containers, its arrays, and all else in it, each by the path that leads to it.

    Args:
      value: Any object of the user.
      expression: How the user named it; the paths begin with it.
      offer_array: Offers arrays of the session's framework.
      frameworks: All that have been imported, those that build on others first.

    Attributes:
      nodes: All places that were met, in order.
      arrays: By path. Arrays inside of objects that do not list their contents are numbered.

    Raises:
      ArrayError: An array without values, or something that cannot be pickled; the text says which and where.
    """

    def __init__(
        self,
        value: object,
        expression: str,
        offer_array: OfferArray,
        frameworks: Sequence[Parts],
    ) -> None:
        self.nodes: list[Node] = []
        self.arrays: dict[str, OfferedArray] = {}
        self._offer_array: OfferArray = lambda value, path: offer_array(
            array_of(frameworks, value), path
        )
        self._stand_in = partial(stand_in, frameworks)
        self._frameworks = frameworks
        self._paths: dict[int, str] = {}
        self._containers: dict[int, str] = {}
        self._at = expression
        # Objects made on the way must outlive the walk: the walk knows objects by `id`.
        self._alive: list[Any] = []
        try:
            self._visit(expression, value, ())
        except RecursionError as error:
            raise ArrayError(
                f"{expression!r} is nested too deeply to be sent to the notebook."
            ) from error
        except ArrayError:
            raise
        except Exception as error:
            raise ArrayError(
                f"{self._at!r} cannot be sent to the notebook: looking at it raised {error_text(error)}. Pull an "
                "array or plain data out of it."
            ) from error

    def digest(self) -> str:
        """Return a digest that is equal on two processes if all nodes are."""
        found = hashlib.blake2b(digest_size=16)
        for node in sorted(self.nodes, key=lambda node: node.path):
            found.update(f"{node.path}\0{node.digest}\0".encode())
        return found.hexdigest()

    def reference(self, value: object) -> str | None:
        """Return the path of an array, which is noted if it was not met before; None for anything else."""
        if type(value) in _NEVER_ARRAYS:
            return None
        path = self._paths.get(id(value))
        if path is not None:
            return path
        return self._note_array(f"array {len(self.arrays)} in {self.nodes[0].path}", value)

    def _note_array(self, path: str, value: Any) -> str | None:
        offered = whole(value) if is_numpy_array(value) else self._offer_array(value, path)
        if offered is None:
            return None
        self._alive.append(value)
        self._paths[id(value)] = path
        self.arrays[path] = offered
        text = array_type_text(dtype_named(offered.dtype).name, offered.shape)
        kind = f"array {offered.dtype} {offered.shape} {offered.sharding}"
        self.nodes.append(Node(path, kind, text))
        return path

    def _visit(self, path: str, value: Any, within: tuple[int, ...]) -> None:
        cls = type(value)
        self._at = path
        if id(value) in within:
            self._note(path, "itself", "itself")
            return
        if cls not in _NEVER_ARRAYS:
            known = self._paths.get(id(value))
            if known is not None:
                self._note(path, f"the same as {known}", "an array")
                return
            if self._note_array(path, value):
                return
        children = self._children(value)
        if children is None:
            self._note_leaf(path, value)
            closure = value.__closure__ if cls is types.FunctionType else None
            for number, cell in enumerate(closure or ()):
                self._visit(f"{path}.__closure__[{number}]", captured(cell), (*within, id(value)))
            return
        known = self._containers.setdefault(id(value), path)
        self._alive.append(value)
        if known != path and len(self.nodes) > MANY_NODES:
            self._note(path, f"the same as {known}", f"a {cls.__name__}")
            return
        inside = list(children)
        kind = f"{cls.__module__}.{cls.__qualname__}"
        keys = "\0".join(sorted(step for step, _ in inside))
        name = "an empty" if not inside else "a"
        count = f" of {len(inside)}" if inside and cls in (*_MAPPINGS, list, tuple) else ""
        self._note(path, f"{kind}\0{len(inside)}\0{keys}", f"{name} {cls.__name__}{count}")
        if len(inside) > MOST_LISTED and all(type(child) in _PLAIN for _, child in inside):
            lines = sorted(f"{step} {type(child).__name__} {child!r}" for step, child in inside)
            self._note(f"{path}[…]", _digest("\0".join(lines).encode()), "plain data")
            return
        taken: dict[str, int] = {}
        for step, child in inside:
            # Keys of a dict may have the same text.
            taken[step] = number = taken.get(step, 0) + 1
            unique = step if number == 1 else f"{step}#{number}"
            self._visit(path + unique, child, (*within, id(value)))

    def _children(self, value: Any) -> Children | None:
        """Return what a container holds; None for any other object, or one that does not list its contents."""
        cls = type(value)
        if cls in _PLAIN:
            return None  # JAX treats None as an empty tree
        if cls in _MAPPINGS:
            return [(f"[{_key_text(key)}]", child) for key, child in value.items()]
        if cls in (list, tuple):
            return [(f"[{number}]", child) for number, child in enumerate(value)]
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return [(f".{name}", child) for name, child in zip(cls._fields, value, strict=True)]
        other = self._stand_in(value)
        if other is not None:
            self._alive.append(other)
            return [("", other)]
        for framework in self._frameworks:
            children = framework.children(value)
            if children is not None:
                found = list(children)
                self._alive += [child for _, child in found]
                return found
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return [(f".{name}", child) for name, child in fields(value)]
        return None

    def _note(self, path: str, digest: str, text: str) -> None:
        self.nodes.append(Node(path, digest, text))

    def _note_leaf(self, path: str, value: Any) -> None:
        cls = type(value)
        if cls in _PLAIN:
            text = repr(value)
            digest = text if len(text) <= SHORT else _digest(text.encode())
            short = text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
            self._note(path, f"{cls.__name__} {digest}", short)
            return
        if cls in (set, frozenset):
            parts = sorted(_digest(self.packed(member, path)) for member in value)
            text = f"a {cls.__name__} of {len(parts)}"
            self._note(path, f"{cls.__name__} {_digest(repr(parts).encode())}", text)
            return
        if isinstance(value, _CODE):
            name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            code = code_digest(value) or name
            text = f"{cls.__name__} {getattr(value, '__name__', '')}"
            self._note(path, f"{name} {code}", text)
            return
        numpy = sys.modules.get("numpy")
        name = f"{cls.__module__}.{cls.__qualname__}"
        if numpy is not None and isinstance(value, numpy.generic):
            self._note(path, f"{name} {value.tobytes().hex()}", repr(value))
            return
        models = (f.model_digest(value, path, self._offer_array) for f in self._frameworks)
        model = next((one for one in models if one is not None), None)
        if model is not None:
            self._note(path, f"{name} {model}", f"a {cls.__name__}")
            return
        # Done before packing, so that an array found inside comes after the object that holds it.
        at = len(self.nodes)
        self._note(path, "", f"a {cls.__name__}")
        data = _digest(self.packed(value, path))
        self.nodes[at] = Node(path, f"{name} {data}", f"a {cls.__name__}")

    def packed(self, value: Any, path: str) -> bytes:
        """Return a pickle with the paths of arrays in place of them.

        Raises:
          ArrayError: The value cannot be pickled.
        """
        try:
            return packed(value, self.reference, code_by_value=False, stand_in=self._stand_in)
        except ArrayError:
            raise
        except Exception as error:
            raise ArrayError(
                f"{path!r} (of type {type(value).__name__}) cannot be sent to the notebook "
                f"({error_text(error)}). Pull an array or plain data out of it."
            ) from error


def fields(value: Any) -> Children:
    """Return the fields of a dataclass that are set; read through `object`, since the class may be the user's."""
    found = []
    for one in dataclasses.fields(value):
        try:
            found.append((one.name, object.__getattribute__(value, one.name)))
        except AttributeError:
            continue
    return found


def _key_text(key: Any) -> str:
    if type(key) in (*_PLAIN, tuple):
        return repr(key)
    return f"<{type(key).__name__}>"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


PREVIEWED = 3
"""Number of elements of an array that an error text shows."""

MOST_NODES = 20_000
"""Largest number of places of a value that are listed when two processes differ."""


class Outgoing(ArraySource):
    """A value on its way to a kernel, held from its offer until the kernel has it or gives up.

    Args:
      value: Any object of the user.
      expression: How the user named it.
      offer_array: Offers arrays of the session's framework.
      frameworks: All that have been imported, those that build on others first.

    Raises:
      ArrayError: The value cannot be sent; the text says why and where.
    """

    def __init__(
        self,
        value: Any,
        expression: str,
        offer_array: OfferArray,
        frameworks: Sequence[Parts],
    ) -> None:
        # A variable by itself comes as its array; within a tree it stays what it is.
        for framework in frameworks:
            value = framework.unwrapped(value)
        self._tree = ValueTree(value, expression, offer_array, frameworks)
        # Pickled at once: pickling finds the arrays inside objects that do not list their contents.
        self._structure = self._tree.packed(value, expression)
        self._memories: list[OpenedMemory] = []
        super().__init__()
        for path, array in self._tree.arrays.items():
            self.add(path, array.dtype, array.pieces)

    def describe(self) -> ValueOffer:
        """Return the value's arrays by path, and a digest of all else."""
        arrays = {path: array.describe() for path, array in self._tree.arrays.items()}
        return ValueOffer(arrays=arrays, digest=self._tree.digest())

    def structure(self) -> bytes:
        """Return the value pickled, with the paths of arrays in place of them."""
        return self._structure

    def nodes(self) -> list[tuple[str, str, str]]:
        """Return path, digest and text of all that the value holds, to find where processes differ."""
        return [(n.path, n.digest, n.text) for n in self._tree.nodes[:MOST_NODES]]

    def digests(self, pieces: Sequence[tuple[str, int]]) -> list[str]:
        """Return a digest of each of these pieces; digests are equal where the bytes are."""
        return [digest(self.piece(path, number)) for path, number in pieces]

    def preview(self, path: str, number: int) -> str:
        """Return the first elements of a piece, as text."""
        piece = self.piece(path, number).reshape(-1)
        shown = ", ".join(str(element) for element in piece[:PREVIEWED])
        return f"[{shown}{', …' if piece.size > PREVIEWED else ''}]"

    def open(self, addresses: Sequence[MemoryAddress]) -> bool:
        """Open memories of the kernel; return whether this process can."""
        try:
            for address in addresses:
                self._memories.append(OpenedMemory(address))
        except OSError:
            self._close_memories()
            return False
        return True

    def write(self, boxes: Sequence[OfferedBox], spots: Sequence[Spot]) -> None:
        """Write parts of arrays into memories of the kernel.

        Args:
          boxes: Which parts.
          spots: For each part, the memory that its whole array goes to, and how many bytes from its start.
        """
        for one, (memory, at) in zip(boxes, spots, strict=True):
            shape = self._tree.arrays[one.path].shape
            self._memories[memory].write_box(at, shape, one.box, self.part(one))

    def close(self) -> None:
        """Drop the pieces that were read, and close the memories."""
        super().close()
        self._close_memories()

    def _close_memories(self) -> None:
        for memory in self._memories:
            memory.close()
        self._memories = []
