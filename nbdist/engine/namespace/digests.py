"""What the user's names hold, in a few bytes that are equal on two processes where that is."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from nbdist.engine.agreement.code import WRAPPERS, code_digest
from nbdist.engine.probe.samples import PLAIN, digest_of
from nbdist.engine.values.arrays import digest, is_numpy_array, whole
from nbdist.engine.values.packing import packed
from nbdist.engine.values.parts import Children, OfferArray, Parts, array_of, stand_in
from nbdist.engine.values.tree import Tree

MOST_APART = 20_000
"""A value of more parts is compared as one."""


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
        look = _Large if _is_large(value) else _Small
        try:
            looked = look(value, name, offer_array, (places, *frameworks))
        except Exception:  # noqa: BLE001 - any object's own
            continue
        found[name] = looked.digest
        if looked.own:
            own.append(name)
    return Digests(found=found, own=tuple(own))


class _Small:
    """A value taken apart; `own`: it leads to arrays of this process alone."""

    def __init__(
        self, value: object, name: str, offer_array: OfferArray, frameworks: Sequence[Parts]
    ) -> None:
        tree = Tree(value, name, offer_array, frameworks)
        alone = {path: a for path, a in tree.arrays.items() if a.sharding is None}
        values = [digest(piece.read()) for a in alone.values() for piece in a.pieces]
        self.digest = digest_of((tree.digest(), sorted(alone), values))
        self.own = bool(alone)


class _Large:
    """A value as its pickle, which is made ten times as fast; equal values that are built otherwise may differ."""

    def __init__(
        self, value: object, name: str, offer_array: OfferArray, frameworks: Sequence[Parts]
    ) -> None:
        self.own = False

        def reference(part: Any) -> Any:
            if type(part) in (list, dict, *PLAIN):
                return None
            array = array_of(frameworks, part)
            offered = whole(array) if is_numpy_array(array) else offer_array(array, name)
            if offered is None:
                return None
            if offered.sharding is not None:
                return offered.dtype, offered.shape, offered.sharding
            self.own = True
            return tuple(digest(piece.read()) for piece in offered.pieces)

        pickled = packed(
            value, reference, code_by_value=False, stand_in=partial(stand_in, frameworks)
        )
        self.digest = digest_of(hashlib.blake2b(pickled, digest_size=16).hexdigest())


def _is_large(value: object) -> bool:
    """Whether its containers hold more than `MOST_APART`."""
    count, left = 0, [value]
    while left and count <= MOST_APART:
        one = left.pop()
        if type(one) in (list, tuple, dict):
            count += len(one)  # type: ignore[arg-type]
            left += islice(one.values() if isinstance(one, dict) else one, MOST_APART)  # type: ignore[call-overload]
    return count > MOST_APART


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
