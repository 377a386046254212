"""Which names of a namespace are the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nbdist.engine.probe.walk import IPYTHON_NAMES

_HISTORY = re.compile(
    r"_+|_i+|_i?\d+|_[iod]h|_exit_code|__\w+__|_[0-9a-f]{8}_\w+_(f|args|kwargs|result)"
)
"""What IPython keeps of cells, Python of a module, and ipyparallel of the call that is asking."""


def users(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The user's names, in the order in which they were set first.

    Args:
      namespace: All that cells see.
      hidden: What IPython has put there itself, as `%who` knows it.
    """
    missing = object()
    return {
        name: value
        for name, value in namespace.items()
        if name not in IPYTHON_NAMES
        and not _HISTORY.fullmatch(name)
        and hidden.get(name, missing) is not value
    }
