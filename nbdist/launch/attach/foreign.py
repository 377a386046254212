"""Engines that somebody else has started."""

from __future__ import annotations

from typing import Any

from nbdist.errors import SessionError
from nbdist.launch.attach.regained import Regained
from nbdist.launch.attach.resolve import Cluster


def take_part(cluster: Cluster, *, grace_s: float, **options: Any) -> Regained:
    """Makes a session of a cluster's engines."""
    raise SessionError(f"{cluster.name}: not yet.")
