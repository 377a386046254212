"""One module a framework; each answers the same questions.

`initialize` (join the cluster), `explain` (where an array's pieces lie), `offer_array` (its pieces),
`placed` (arrays made of pieces), and `INTERRUPT`, the signal that frees a process which waits in a collective.
"""

from __future__ import annotations

import importlib
from types import ModuleType

FRAMEWORKS = {
    "jax": "nbdist.engine.frameworks.jax.start",
    "keras": "nbdist.engine.frameworks.keras.start",
    "tensorflow": "nbdist.engine.frameworks.tensorflow.start",
}


def framework(name: str) -> ModuleType:
    """The module that answers for a framework; imports nothing outside the standard library."""
    return importlib.import_module(FRAMEWORKS[name])
