"""Paths of the user's namespace under which arrays are reached."""

from __future__ import annotations

from typing import Any

from nbdist.engine.frameworks.walking import libraries, packages
from nbdist.engine.probe.lent import Lent
from nbdist.engine.probe.walk import Bounds, Walk


def array_paths(namespace: dict[str, object], arrays: type) -> dict[str, Any]:
    """Return the arrays of a namespace by path, within the bounds of every look.

    A running `fit` of Keras takes the values out of variables. Such a variable counts with its array of the last
    step; it is left out where that array is out of reach.
    """
    found: dict[str, Any] = {}

    def note(path: str, value: Any) -> bool:
        array = value.array if type(value) is Lent else value
        if isinstance(array, arrays):
            found[path] = array
        return True

    Walk(
        found=note,
        mesh=lambda mesh: None,
        arrays=(arrays,),
        meshes=(),
        packages=packages(),
        libraries=libraries(),
        bounds=Bounds(),
    ).run(namespace)
    return found
