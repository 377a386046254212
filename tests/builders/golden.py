"""The golden files, as they are and as snapshots."""

from __future__ import annotations

import json
from typing import Any

from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode
from tests.places import GOLDEN


def golden(name: str) -> dict[str, Any]:
    """One file: a `snapshot`, and what is expected of it."""
    content: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return content


def snapshot(name: str) -> Snapshot:
    """The snapshot of one."""
    return decode(Snapshot, golden(name)["snapshot"])
