"""Parts of a variable: its JAX arrays, NumPy arrays and numbers, and how each part is saved.

Models and other objects that keep their arrays by themselves are saved by these arrays and restored in place. What
cannot be saved is refused before anything is written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nbdist.engine.values.arrays import readable
from nbdist.errors import ArrayError


class Suffix(str):
    """The suffix that leads from the expression of an object to an array of it: `.layers[0].kernel`."""

    __slots__ = ()


class Keeper(Protocol):
    """How a framework saves and sets objects that keep their arrays by themselves, such as models."""

    @property
    def title(self) -> str:
        """The framework's name, as people write it."""

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object of the framework, and not a container of arrays such as a list."""

    def state(self, value: Any) -> Any | None:
        """Return the arrays of an object that keeps its own, as a pytree; None: this kind is not saved."""

    def set_state(self, value: Any, state: Any) -> None:
        """Put arrays into an object, of the same shapes, dtypes and structure as its `state`."""


class SavedObjects:
    """Access to objects that others may refer to, and that keep their arrays by themselves.

    Args:
      keepers: Those of the frameworks that have been imported.
    """

    def __init__(self, keepers: Sequence[Keeper]) -> None:
        self._keepers = keepers

    def with_states(self, name: str, value: Any) -> Any:
        """Return the value with the arrays of each model in place of the model.

        Args:
          name: The variable's name.
          value: Any object.

        Raises:
          ArrayError: A model has no arrays yet, or an object of a framework is of a kind that is not saved.
        """
        import jax

        return jax.tree.map(lambda node: self._state(name, node), value, is_leaf=self.keeps_its_own)

    def given_back(self, there: Any, restored: Any) -> Any:
        """Return the value for a name: existing models with the restored arrays set in them; all else as restored.

        Args:
          there: The value of the name now.
          restored: The restored value, in the structure that `with_states` gives for `there`.
        """
        import jax

        nodes, tree = jax.tree.flatten(there, is_leaf=self.keeps_its_own)
        values = tree.flatten_up_to(restored)
        return tree.unflatten(
            [self._given(node, value) for node, value in zip(nodes, values, strict=True)]
        )

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object that keeps its own arrays, and no container of arrays."""
        return self._keeper(value) is not None

    def _keeper(self, value: Any) -> Keeper | None:
        return next((one for one in self._keepers if one.keeps_its_own(value)), None)

    def _state(self, name: str, node: Any) -> Any:
        keeper = self._keeper(node)
        if keeper is None:
            return node
        state = keeper.state(node)
        if state is None:
            raise ArrayError(
                f"{name} is or holds an object of {keeper.title} ({type(node).__name__}) that is not saved. What "
                "is: its models, layers, optimizers and variables. Nothing was written."
            )
        if not state:
            raise ArrayError(
                f"{name} is or holds a {type(node).__name__} that has no arrays yet. Build it "
                "first, such as by a call with one batch. Nothing was written."
            )
        return state

    def _given(self, node: Any, value: Any) -> Any:
        keeper = self._keeper(node)
        if keeper is None:
            return value
        keeper.set_state(node, value)
        return node


def path_text(path: tuple[Any, ...]) -> str:
    """Return a path of JAX's as a person writes it, also into a model."""
    import jax

    return "".join(
        str(key.key) if type(getattr(key, "key", None)) is Suffix else jax.tree_util.keystr((key,))
        for key in path
    )


SCALARS = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str"}
KINDS = "biufc"
"""Kinds of the NumPy dtypes that can be saved: numbers and booleans. Dtypes of `ml_dtypes` can be saved too."""

Entry = str | tuple[str, ...] | None
"""An entry of a `PartitionSpec`, for one dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLeaf:
    """One leaf of a variable.

    Attributes:
      path: Within the variable, as JAX writes it: `['w'].mu`; empty for the variable itself.
      kind: `array` of JAX, `numpy`, or `scalar` of Python.
      dtype: The dtype's name; for a scalar the name of its type.
      shape: The shape of the whole array.
      spec: Per dimension the axes of the mesh; None for an array that no `NamedSharding` describes.
      axes: The axes of its mesh in order, with their sizes.
      local: Whether each process has an array of its own, which must be equal on all.
      key: The PRNG implementation of typed keys, whose words are then the array; empty for any other part.
      single: Whether it is a NumPy scalar, not an array.
      value: The value of a scalar, as plain data.
    """

    path: str
    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    spec: tuple[Entry, ...] | None = None
    axes: tuple[tuple[str, int], ...] = ()
    local: bool = False
    key: str = ""
    single: bool = False
    value: Any = None

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array; 0 for a scalar."""
        import jax

        if self.kind == "scalar":
            return 0
        return math.prod(self.shape) * int(jax.numpy.dtype(self.dtype).itemsize)


class VariableParts:
    """The parts of a variable, and its values.

    Args:
      name: The variable's name.
      value: Any object.
      objects: Takes the arrays out of models and other objects that keep their own.
      values: Whether the values themselves are wanted; then every array must have values.

    Attributes:
      parts: In the order of JAX's flattening.
      values: For each part the value to write: JAX arrays that span processes as they are, others as NumPy arrays.
      shardings: The sharding of each JAX array; None for other parts, and for arrays that JAX may move to where
        they are used.
      tree: JAX's description of the containers.

    Raises:
      ArrayError: The variable holds something that cannot be saved.
    """

    def __init__(
        self, name: str, value: Any, objects: SavedObjects, *, values: bool = True
    ) -> None:
        import jax

        with_paths, self.tree = jax.tree_util.tree_flatten_with_path(
            objects.with_states(name, value)
        )
        self.name = name
        self.parts: list[SavedLeaf] = []
        self.values: list[Any] = []
        self.shardings: list[Any] = []
        for path, leaf in with_paths:
            part, written, sharding = _read(name, path_text(path), leaf, values=values)
            self.parts.append(part)
            self.values.append(written)
            self.shardings.append(sharding)

    def digest(self) -> str:
        """Return a digest, equal if all that is saved is; arrays on several processes count by description."""
        return hashlib.sha256(repr(self.digests()).encode()).hexdigest()

    def digests(self) -> list[tuple[str, str]]:
        """Return for each part its path, and a text that is equal if the part is."""
        return [
            (part.path, hashlib.sha256(repr(part).encode() + _bytes(part, value)).hexdigest())
            for part, value in zip(self.parts, self.values, strict=True)
        ]


def is_spanning(leaf: Any) -> bool:
    """Return whether this is a JAX array that lies on several processes; with one process, any JAX array."""
    import jax

    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return False
    return jax.process_count() == 1 or not leaf.is_fully_addressable


def _read(name: str, path: str, leaf: Any, *, values: bool) -> tuple[SavedLeaf, Any, Any]:
    import jax
    import numpy as np

    said = f"{name}{path}"
    if isinstance(leaf, jax.core.Tracer):
        raise ArrayError(f"{said} is a tracer, which has no values; nothing was written.")
    if isinstance(leaf, jax.Array):
        return _array(said, path, leaf, values=values)
    if isinstance(leaf, np.ndarray | np.generic):
        _refuse_dtype(said, leaf.dtype)
        part = SavedLeaf(
            path=path,
            kind="numpy",
            dtype=leaf.dtype.name,
            shape=leaf.shape,
            single=isinstance(leaf, np.generic),
        )
        return part, np.asarray(leaf), None
    if type(leaf) in SCALARS:
        value = [leaf.real, leaf.imag] if isinstance(leaf, complex) else leaf
        return (
            SavedLeaf(path=path, kind="scalar", dtype=SCALARS[type(leaf)], value=value),
            None,
            None,
        )
    raise ArrayError(
        f"{said} is of type {type(leaf).__name__}, which cannot be saved. What can: arrays of JAX and NumPy, "
        "typed PRNG keys, numbers, texts, and dicts, lists, tuples and other pytrees of them. Save a part of it "
        "under a name of its own. Nothing was written."
    )


def _array(said: str, path: str, leaf: Any, *, values: bool) -> tuple[SavedLeaf, Any, Any]:
    import jax
    import numpy as np

    key = ""
    if values and leaf.is_deleted():
        raise ArrayError(
            f"{said} has no values any more: it was deleted, or donated to a program. Nothing was written."
        )
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        if leaf.is_deleted():
            raise ArrayError(
                f"{said}: PRNG keys that were deleted; delete the name as well, with del."
            )
        key, leaf = str(jax.random.key_impl(leaf)), jax.random.key_data(leaf)
    _refuse_dtype(said, leaf.dtype)
    sharding = leaf.sharding
    spec: tuple[Entry, ...] | None = None
    axes: tuple[tuple[str, int], ...] = ()
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec, axes = _spec(said, sharding), tuple(sharding.mesh.shape.items())
    spans = is_spanning(leaf)
    part = SavedLeaf(
        path=path,
        kind="array",
        dtype=leaf.dtype.name,
        shape=tuple(leaf.shape),
        spec=spec if spans else None,
        axes=axes if spans else (),
        local=not spans,
        key=key,
    )
    written = leaf if not values else readable(leaf) if spans else np.asarray(leaf)
    return part, written, sharding if spans or leaf.committed else None


def _spec(said: str, sharding: Any) -> tuple[Entry, ...]:
    if getattr(sharding.spec, "unreduced", None):
        raise ArrayError(
            f"{said} is unreduced over {', '.join(map(str, sharding.spec.unreduced))}: its shards are parts of a "
            "sum and not of an array. Reduce it first. Nothing was written."
        )
    return tuple(
        entry if entry is None or isinstance(entry, str) else tuple(entry)
        for entry in sharding.spec
    )


def _refuse_dtype(said: str, dtype: Any) -> None:
    import ml_dtypes

    if dtype.kind not in KINDS and not hasattr(ml_dtypes, dtype.name):
        raise ArrayError(
            f"{said} has the dtype {dtype}, which cannot be saved: numbers and truth values can. Nothing was "
            "written."
        )


def _bytes(part: SavedLeaf, value: Any) -> bytes:
    import numpy as np

    counts = part.local or part.kind == "numpy"
    return np.ascontiguousarray(value).tobytes() if counts else b""
