"""Shapes of the arrays of a planned value, and the specs that are asked for them, as a framework returns them.

Imports nothing outside the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entries = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dimension, in order; dimensions left out at the end are not split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSpec:
    """A spec as somebody has written it.

    Attributes:
      entries: One for each dimension that the spec names.
      axes: The sizes of the axes of the mesh it was made for; None where it names no mesh.
      rule: The pattern that gave the spec; None where no pattern did.
      problem: Why the spec cannot be used; None where it can.
    """

    entries: Entries
    axes: Mapping[str, int] | None = None
    rule: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """One array of a value; it may have no values yet.

    Attributes:
      path: The rest of the Python expression that reaches it, such as `['dense'].kernel`; for frameworks whose
        arrays have names of their own, that name with a `/` before it.
      name: The name that rules are matched against, such as `dense/kernel`.
      shape: The shape of the whole array.
      dtype: The name of the dtype, such as `bfloat16`.
      nbytes: The bytes of one whole copy.
      own: The spec that the array carries itself; None if it carries none.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    own: AskedSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLayout:
    """Specs that a tree of specs or a map of layouts asks for the arrays of a value.

    Attributes:
      specs: One for each array, in order; None for an array without a spec.
      unmatched: Patterns, or paths of specs, that match no array.
      axes: The sizes of the axes of the mesh it was made for; None where it names no mesh.
      noun: The word for one of its parts.
    """

    specs: Sequence[AskedSpec | None]
    unmatched: Sequence[str]
    axes: Mapping[str, int] | None = None
    noun: str = "rule"


def array_bytes(shape: Sequence[int], itemsize: int) -> int:
    """Return the bytes of one whole copy."""
    count = itemsize
    for size in shape:
        count *= size
    return count


def entry(part: Any) -> tuple[str, ...] | None:
    """Return the axes of one entry of a spec (None, a name, or several); None if the compiler is to decide."""
    if part is None:
        return ()
    if isinstance(part, str):
        return (part,)
    if isinstance(part, tuple | list):
        return tuple(map(str, part))
    return None
