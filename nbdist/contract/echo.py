"""Messages that a process has sent as output and still keeps, for a kernel that attaches later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptMessage:
    """One message of output as it was sent: its id, the request it answers, its type and its content."""

    id: str
    parent: str
    kind: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Messages in order, and how many messages of each request were dropped."""

    messages: tuple[KeptMessage, ...]
    lost: Mapping[str, int]
