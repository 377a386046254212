"""Ends of pipes that are this kernel's alone: a child that it forks has none of them.

As long as anybody has the end that is written to, whoever reads never meets the end of input; and what was in a
buffer at the fork would be written a second time when the child ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import Protocol


class HasEnds(Protocol):
    """What has such ends."""

    def ends(self) -> Iterator[int]:
        """Their descriptors, those that are open."""


# Nobody can take back what is registered for forks, so it is done once for all that come.
_ALL: weakref.WeakSet[HasEnds] = weakref.WeakSet()


def keep_own(channel: HasEnds) -> None:
    """Has children that this process forks from now on hold none of its ends, as long as it lives.

    The descriptors stay open there, and lead nowhere. Forks that go past Python are not seen.
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
