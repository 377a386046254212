"""Packages and libraries of all frameworks, for a walk over objects."""

from __future__ import annotations

from nbdist.engine.cell.packages import packages_of
from nbdist.engine.frameworks import frameworks, imported
from nbdist.engine.probe.library import Library


def packages() -> frozenset[str]:
    """Return the packages of all frameworks."""
    return packages_of(frameworks())


def libraries() -> list[Library]:
    """Return the libraries of all imported frameworks; each comes before that of the framework it builds on."""
    found = (one.library() for one in imported())
    return [library for library in found if library is not None]
