"""The displays of a session: its live view, and the pictures of it in cells."""

from __future__ import annotations

from collections.abc import Callable

from nbdist.contract.snapshot import Snapshot
from nbdist.view.feed import Feed
from nbdist.view.picture import Picture

MAX_PICTURES = 8
"""The stills of this many newest views are kept up to date; older ones stay as they are."""


class Views:
    """Everything that follows the snapshots of a session, also from one start of it to the next.

    Args:
      feed: Gets the snapshots; None: the session makes one of its own.
    """

    def __init__(self, feed: Feed | None) -> None:
        self.feed = feed or Feed()
        self._pictures: list[Picture] = []
        self._open: Channel | None = None

    def picture(self, snapshot: Callable[[], Snapshot], *, path: str | None) -> Picture:
        """Return a picture that follows the session.

        Args:
          snapshot: Returns what is known now.
          path: The array that is chosen in it; None: none is.
        """
        picture = Picture(self.feed, snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def channel(self) -> Channel:
        """Return the channel to which the processes of one life publish."""
        return Channel(self)

    def publish(self, snapshot: Snapshot, channel: Channel) -> None:
        """Show a new snapshot; called on a monitor's thread."""
        if self._open is channel:
            self.feed.push(snapshot)
            for picture in self._pictures:
                picture.follow(snapshot)

    def open(self, channel: Channel) -> None:
        """Follow this channel from now on, and no other."""
        self._open = channel


class Channel:
    """The snapshots of the processes of one life, shown while this channel is the open one."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def publish(self, snapshot: Snapshot) -> None:
        """Publish a new snapshot; called on the monitor's thread."""
        self._views.publish(snapshot, self)

    def open(self, snapshot: Snapshot | None = None) -> None:
        """Make the views follow this channel from now on.

        Args:
          snapshot: What is known by now, if anything.
        """
        self._views.open(self)
        if snapshot is not None:
            self.publish(snapshot)
