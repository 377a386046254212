"""What a walk over objects must know of all frameworks."""

from __future__ import annotations

from nbdist.engine.cell.packages import packages_of
from nbdist.engine.frameworks import frameworks, imported
from nbdist.engine.probe.library import Library


def packages() -> frozenset[str]:
    """The packages of all frameworks."""
    return packages_of(frameworks())


def libraries() -> list[Library]:
    """Those of the frameworks that have been imported, those that build on others first."""
    found = (one.library() for one in imported())
    return [library for library in found if library is not None]
