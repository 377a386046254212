"""Where nbdist keeps for a person what it can make again.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder; it may not be there yet. Source: the XDG base directory specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nbdist"
