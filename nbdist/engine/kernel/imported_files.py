"""The modules of this process that come from certain files."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence


def imported(paths: Sequence[str]) -> list[str]:
    """Return the names of the modules of this process that come from one of these files."""
    importlib.invalidate_caches()
    wanted = {os.path.realpath(path) for path in paths}
    found = []
    for name, module in list(sys.modules.items()):
        # Modules may be anything, also objects that raise for every attribute.
        file = getattr(module, "__dict__", {}).get("__file__")
        if name != "__main__" and isinstance(file, str) and os.path.realpath(file) in wanted:
            found.append(name)
    return sorted(found)
