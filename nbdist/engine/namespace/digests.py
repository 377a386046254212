"""What the user's names hold, in a few bytes that are equal on two processes where that is."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.agreement.code import WRAPPERS, code_digest
from nbdist.engine.probe.samples import PLAIN, digest_of
from nbdist.engine.values.arrays import digest
from nbdist.engine.values.parts import Children, OfferArray, Parts
from nbdist.engine.values.tree import Tree
from nbdist.errors import ArrayError


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """Of names.

    Attributes:
      found: By name; none of what cannot be looked at.
      own: Names that lead to arrays of this process alone, of NumPy or of a framework.
    """

    found: Mapping[str, str]
    own: tuple[str, ...]


def digests(
    names: Mapping[str, Any],
    *,
    offer_array: OfferArray,
    frameworks: Sequence[Parts],
    reference: Callable[[Any], Any],
) -> Digests:
    """Compares what is one process's own, and the kind of what lies on several.

    Args:
      names: With their values.
      offer_array: That of the session's framework.
      frameworks: All that have been imported, those that build on others first.
      reference: What stands for devices, meshes and shardings, the same on two processes for what is their own.
    """
    found: dict[str, str] = {}
    own = []
    places = _Places(reference)
    for name, value in names.items():
        if type(value) in PLAIN:
            found[name] = digest_of(value)
            continue
        if isinstance(value, io.IOBase):
            continue  # a file belongs to its process
        try:
            tree = Tree(value, name, offer_array, (places, *frameworks))
            whole = {path: a for path, a in tree.arrays.items() if a.sharding is None}
            values = [digest(piece.read()) for a in whole.values() for piece in a.pieces]
        except ArrayError:
            continue
        found[name] = digest_of((tree.digest(), sorted(whole), values))
        if whole:
            own.append(name)
    return Digests(found=found, own=tuple(own))


def _is_wrapper(value: object) -> bool:
    """Whether it is what a decorator such as `jax.jit` makes of a function; asks nothing of the user's classes."""
    return type(value).__module__.partition(".")[0] in WRAPPERS and hasattr(value, "__wrapped__")


class _Places:
    """Devices and meshes as what another process makes its own of; see `nbdist.engine.values.parts.Parts`."""

    def __init__(self, reference: Callable[[Any], Any]) -> None:
        self._reference = reference

    def unwrapped(self, value: Any) -> Any:
        return value

    def array_of(self, value: Any) -> Any:
        return value

    def stand_in(self, value: object) -> object | None:
        found: object | None = self._reference(value)
        if found is None and _is_wrapper(value):
            # What it keeps beside its function, such as what was compiled, is each process's own.
            return "wrapper", code_digest(value)
        return found

    def children(self, value: object) -> Children | None:
        return None

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        return None
