"""What a view needs of whoever has the frames."""

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
        """Answers what is in an array; None where nobody can be asked."""

    @property
    def whole(self) -> Frame | None:
        """All there is of what never changes, which a notebook keeps; None of a session, which is not kept."""

    def attach(self, sink: Sink) -> None:
        """Sends frames to a view from now on."""

    def detach(self, sink: Sink) -> None:
        """Sends no more frames to it."""

    def refresh(self, sink: Sink) -> None:
        """Sends it a full frame soon."""
