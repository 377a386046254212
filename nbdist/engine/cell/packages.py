"""Packages of the frameworks: they tell whose code a file is, and whose classes are arrays and containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Packaged(Protocol):
    """A framework, as far as its modules are concerned.

    `packages`: the first parts of the names of its modules.
    """

    packages: tuple[str, ...]


def packages_of(frameworks: Iterable[Packaged]) -> frozenset[str]:
    """Return the packages of all these frameworks."""
    return frozenset(name for one in frameworks for name in one.packages)
