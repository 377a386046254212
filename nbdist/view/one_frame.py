"""A snapshot that never changes, as the source of a view."""

from __future__ import annotations

import uuid

from nbdist.contract.messages import Frame, plain
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.view.feed import Plain, Sink


class OneFrame:
    """Sends one full frame to each view that asks; has no thread, and no side panel follows it.

    Args:
      snapshot: All there is to show.
    """

    values = None
    """Nobody is there to be asked for values."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stream = uuid.uuid4().hex
        self._frame: Plain | None = None

    @property
    def session(self) -> str:
        """What the snapshot calls itself."""
        return self._snapshot.session

    def attach(self, sink: Sink) -> None:
        """Does nothing: a view that shows itself asks with `refresh`."""

    def detach(self, sink: Sink) -> None:
        """Does nothing: nothing more is sent."""

    def refresh(self, sink: Sink) -> None:
        """Sends all to a view."""
        if self._frame is None:
            sections = encode(self._snapshot)
            self._frame = plain(
                Frame(stream=self._stream, sequence=1, base=None, age=0.0, snapshot=sections)
            )
        sink.take(self._frame)
