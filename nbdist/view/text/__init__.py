"""The session in characters: what a terminal shows and a saved notebook keeps."""

from __future__ import annotations

from nbdist.view.text.arrays import arrays_text, nan_text, shards_text, tree_text
from nbdist.view.text.mesh import mesh_text
from nbdist.view.text.status import layout_text, status_text

__all__ = [
    "arrays_text",
    "layout_text",
    "mesh_text",
    "nan_text",
    "shards_text",
    "status_text",
    "tree_text",
]
