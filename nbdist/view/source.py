"""The interface of a view's source of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nbdist.contract.messages import Frame
from nbdist.view.feed import Sink


class Source(Protocol):
    """The feed of a session, or a snapshot that never changes."""

    @property
    def session(self) -> str | None:
        """The session that is shown; None before anything is known."""

    @property
    def values(self) -> Callable[[str], dict[str, Any]] | None:
        """Returns a summary of an array; None where no process can be asked."""

    @property
    def whole(self) -> Frame | None:
        """All data of a source that never changes, for a notebook to keep; None for a session."""

    def attach(self, sink: Sink) -> None:
        """Send frames to a view from now on."""

    def detach(self, sink: Sink) -> None:
        """Send it no more frames."""

    def refresh(self, sink: Sink) -> None:
        """Send it a full frame soon."""
