"""What is shown of a session: its live view, and the pictures of it in cells."""

from __future__ import annotations

from collections.abc import Callable

from nbdist.contract.snapshot import Snapshot
from nbdist.view.feed import Feed
from nbdist.view.picture import Picture

MAX_PICTURES = 8
"""The stills of the newest views are kept up to date; older ones stay as they are."""


class Views:
    """All that follows the snapshots of a session, also from one start of it to the next.

    Args:
      feed: Gets the snapshots; None: one of the session's own.
    """

    def __init__(self, feed: Feed | None) -> None:
        self.feed = feed or Feed()
        self._pictures: list[Picture] = []

    def picture(self, snapshot: Callable[[], Snapshot], *, path: str | None) -> Picture:
        """A picture that follows the session.

        Args:
          snapshot: Gives what is known now.
          path: Of the array that is chosen in it; None: none is.
        """
        picture = Picture(self.feed, snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def publish(self, snapshot: Snapshot) -> None:
        """Called on the monitor's thread with each new snapshot."""
        self.feed.push(snapshot)
        for picture in self._pictures:
            picture.follow(snapshot)
