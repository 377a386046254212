"""Ends of pipes that belong to this kernel alone: a child that it forks has none of them.

As long as any process has the write end, the reader never meets the end of input. And data that were in a buffer
at the fork would be written a second time when the child ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Protocol


class HasEnds(Protocol):
    """A channel that has such ends."""

    def ends(self) -> Iterator[int]:
        """Yield the descriptors of the open ends."""


# A registration for forks cannot be undone, so there is one for all channels.
_ALL: weakref.WeakSet[HasEnds] = weakref.WeakSet()


def keep_own(channel: HasEnds) -> None:
    """Keep the ends of `channel` from children that this process forks from now on, as long as the channel lives.

    The descriptors stay open in the child, and lead nowhere. Forks that bypass Python are not seen.
    """
    _ALL.add(channel)


def _in_child() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for channel in list(_ALL):
        for descriptor in channel.ends():
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
