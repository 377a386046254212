"""Arrays by their shapes, and the specs that are asked for them: what a framework says of a value that is planned.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Entries = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dimension, in order; what is left out at the end is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSpec:
    """A spec as somebody has written it.

    Attributes:
      entries: One for each dimension it speaks of.
      axes: The sizes of the axes of the mesh it was made for; None where it names no mesh.
      rule: The pattern that gave it; None where none did.
      problem: Why it cannot be used; None where it can.
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
      name: What rules are matched against, such as `dense/kernel`.
      shape: Of the whole array.
      dtype: Its name, such as `bfloat16`.
      nbytes: Of one whole copy.
      own: The spec that it carries itself; None for none.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    own: AskedSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLayout:
    """What a tree of specs or a map of layouts asks for the arrays of a value.

    Attributes:
      specs: One for each array, in order; None where it says nothing of it.
      unmatched: What it says of things that are not there: patterns, or paths of specs.
      axes: Of the mesh it was made for; None where it names none.
      noun: What its parts are called.
    """

    specs: Sequence[AskedSpec | None]
    unmatched: Sequence[str]
    axes: Mapping[str, int] | None = None
    noun: str = "rule"


def array_bytes(shape: Sequence[int], itemsize: int) -> int:
    """Of one whole copy."""
    count = itemsize
    for size in shape:
        count *= size
    return count


def entry(part: Any) -> tuple[str, ...] | None:
    """The axes of one entry of a spec: None, a name, or several; None for what leaves it to the compiler."""
    if part is None:
        return ()
    if isinstance(part, str):
        return (part,)
    if isinstance(part, tuple | list):
        return tuple(map(str, part))
    return None
