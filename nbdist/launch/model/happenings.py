"""Happenings on the hosts of a session: events of their agents, and what the kernel itself notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnded:
    """The agent of a host, or the connection to it, has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLost:
    """A process has ended or is out of reach, without an event of its agent."""

    process_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsSilent:
    """The set of silent hosts has changed: by name, since when (Unix seconds)."""

    since: Mapping[str, float]


Happening = Event | HostEnded | ProcessLost | HostsSilent
