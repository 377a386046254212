"""Facts that hosts have reported about themselves."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.contract.checkup import Checkup

SILENT_SECONDS = 3.0
"""A host that has sent nothing for this time is shown as silent; each sends a sign of life once a second."""


@dataclass
class HostInfo:
    """Facts that an agent has reported about its host.

    `ports` are reserved there for its processes; at `listening` it can be reached until it learns that all have
    tried. `cwd` is the working folder its processes begin in. `asked_s` and `received_s` are this kernel's clock
    (Unix seconds) when it was asked and when it answered.
    """

    host: str
    pid: int
    nbdist: str
    folder: str
    cwd: str
    address: str | None
    listening: int | None = None
    ports: tuple[int, ...] = ()
    checks: Checkup | None = None
    asked_s: float = 0.0
    received_s: float = 0.0
