"""A snapshot that never changes, as the source of a view."""

from __future__ import annotations

import uuid
from functools import cached_property

from nbdist.contract.messages import Frame, plain
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.view.feed import Sink


class OneFrame:
    """Sends one full frame to each view that asks; has no thread, and no side panel follows it."""

    values = None
    """No process is there to be asked for values."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stream = uuid.uuid4().hex

    @property
    def session(self) -> str:
        """The session's id in the snapshot."""
        return self._snapshot.session

    @cached_property
    def whole(self) -> Frame:
        """The one frame."""
        sections = encode(self._snapshot)
        return Frame(stream=self._stream, sequence=1, base=None, age=0.0, snapshot=sections)

    def attach(self, sink: Sink) -> None:
        """Do nothing: a view that shows itself asks with `refresh`."""

    def detach(self, sink: Sink) -> None:
        """Do nothing: nothing more is sent."""

    def refresh(self, sink: Sink) -> None:
        """Send the frame to a view."""
        sink.take(plain(self.whole))
