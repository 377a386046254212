"""Where the repository's files are, for tests in any folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
