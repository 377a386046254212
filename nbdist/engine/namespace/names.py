"""The user's names, told apart from the others in a namespace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbdist.engine.probe.walk import IPYTHON_NAMES

_HISTORY = re.compile(
    r"_+|_i+|_i?\d+|_[iod]h|_exit_code|__\w+__|_[0-9a-f]{8}_\w+_(f|args|kwargs|result)"
)
"""Names that IPython keeps of cells, Python of a module, and ipyparallel of the call that is asking."""


def users(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's names with their values, in the order in which they were first set.

    Args:
      namespace: All names that cells see.
      hidden: Names that IPython has set itself, as `%who` knows them.
    """
    missing = object()
    return {
        name: value
        for name, value in namespace.items()
        if name not in IPYTHON_NAMES
        and not _HISTORY.fullmatch(name)
        and hidden.get(name, missing) is not value
    }
