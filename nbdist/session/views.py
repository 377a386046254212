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
        self._open: Channel | None = None

    def picture(self, snapshot: Callable[[], Snapshot], *, path: str | None) -> Picture:
        """A picture that follows the session.

        Args:
          snapshot: Gives what is known now.
          path: Of the array that is chosen in it; None: none is.
        """
        picture = Picture(self.feed, snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def channel(self) -> Channel:
        """What the processes of one life publish to."""
        return Channel(self)

    def publish(self, snapshot: Snapshot, channel: Channel) -> None:
        """Called on a monitor's thread with each new snapshot."""
        if self._open is channel:
            self.feed.push(snapshot)
            for picture in self._pictures:
                picture.follow(snapshot)

    def open(self, channel: Channel) -> None:
        """From now on this one is followed, and no other."""
        self._open = channel


class Channel:
    """The snapshots of the processes of one life, which are shown while it is the open one.

    Args:
      views: What follows them.
    """

    def __init__(self, views: Views) -> None:
        self._views = views

    def publish(self, snapshot: Snapshot) -> None:
        """Called on the monitor's thread with each new snapshot."""
        self._views.publish(snapshot, self)

    def open(self, snapshot: Snapshot | None = None) -> None:
        """Has this one followed from now on.

        Args:
          snapshot: What is known by now, if something is.
        """
        self._views.open(self)
        if snapshot is not None:
            self.publish(snapshot)
