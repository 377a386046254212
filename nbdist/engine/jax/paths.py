"""By which paths of the user's namespace arrays are reached."""

from __future__ import annotations

from typing import Any

from nbdist.engine.walk import Bounds, Walk


def array_paths(namespace: dict[str, object], arrays: type) -> dict[str, Any]:
    """The arrays of a namespace by path, within the bounds of every look."""
    found: dict[str, Any] = {}

    def note(path: str, array: Any) -> bool:
        found[path] = array
        return True

    Walk(found=note, mesh=lambda mesh: None, arrays=(arrays,), meshes=(), bounds=Bounds()).run(
        namespace
    )
    return found
