"""A parent on another machine and its kernel say once a second that they are there.

A connection that is cut looks like one on which nobody has anything to say; TCP alone would notice after minutes.
"""

from __future__ import annotations

import select
import signal
import time
from types import FrameType

from nbdist.contract.events import Alive
from nbdist.contract.lines import Events
from nbdist.machine.pauses import Pauses

PERIOD_SECONDS = 1.0
"""How often each side says that it is there."""

ANSWERS_SECONDS = 3.0
"""How long after the kernel has last sent something a kept parent still says that it is there."""


class Pulse:
    """One side's beat, and the silence of the other.

    Args:
      events: Where beats go.
      orders: The descriptor orders come from.
      silence_s: How long the kernel may say nothing while this process runs; None: for ever, and then beats are
        answers only, so that what a kept parent writes does not grow while no kernel is there to read it.
    """

    def __init__(self, events: Events, orders: int, *, silence_s: float | None) -> None:
        self.period_s = PERIOD_SECONDS
        self._events = events
        self._orders = orders
        self._silence_s = silence_s
        self._pauses = Pauses()
        self._received_at = self._said = time.monotonic()

    def received(self) -> None:
        """The kernel has said something."""
        self._received_at = time.monotonic()

    def beat(self) -> bool:
        """Says that this parent is there, when it is time; answers whether the kernel counts as there."""
        now = time.monotonic()
        silence = self._pauses.ran_since(self._received_at)
        asked = self._silence_s is not None or silence < ANSWERS_SECONDS
        if asked and now - self._said >= self.period_s:
            self._said = now
            self._events.send(Alive())
        return self._silence_s is None or silence < self._silence_s

    def go_on_without(self) -> None:
        """The kernel may be silent for ever."""
        self._silence_s = None

    def go_on_by_itself(self) -> None:
        """Beats while this thread is busy with imports, and ends the process when the kernel leaves.

        The handler runs between two steps of the interpreter, so only a single long call in C delays it.
        """
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    def stop(self) -> None:
        """Ends what `go_on_by_itself` began; what came in between is read by whoever reads orders."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.received()

    def _tick(self, number: int, frame: FrameType | None) -> None:
        poll = select.poll()
        poll.register(self._orders, select.POLLIN | getattr(select, "POLLRDHUP", 0))
        gone = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
        if any(event & gone for _, event in poll.poll(0)):
            raise SystemExit(0)
        self.beat()
