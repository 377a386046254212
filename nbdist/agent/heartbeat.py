"""Heartbeats between a kernel and an agent on another machine: each sends one a second.

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
"""Seconds between two heartbeats of each side."""

ANSWERS_SECONDS = 3.0
"""How long a kept agent still sends heartbeats after the kernel has last sent something."""


class Pulse:
    """The heartbeats of an agent, and the silence of its kernel.

    Args:
      events: Gets the heartbeats.
      orders: The descriptor orders come from.
      silence_s: How long the kernel may say nothing while this process runs; None: for ever. Heartbeats are then
        sent only in answer to the kernel, so that the output of a kept agent does not grow without a reader.
    """

    def __init__(self, events: Events, orders: int, *, silence_s: float | None) -> None:
        self.period_s = PERIOD_SECONDS
        self._events = events
        self._orders = orders
        self._silence_s = silence_s
        self._pauses = Pauses()
        self._received_at = self._said = time.monotonic()

    def received(self) -> None:
        """Note that the kernel has sent something."""
        self._received_at = time.monotonic()

    def beat(self) -> bool:
        """Send a heartbeat if it is time; return whether the kernel counts as there."""
        now = time.monotonic()
        silence = self._pauses.ran_since(self._received_at)
        asked = self._silence_s is not None or silence < ANSWERS_SECONDS
        if asked and now - self._said >= self.period_s:
            self._said = now
            self._events.send(Alive())
        return self._silence_s is None or silence < self._silence_s

    def go_on_without(self) -> None:
        """Allow the kernel to be silent for ever."""
        self._silence_s = None

    def go_on_by_itself(self) -> None:
        """Send heartbeats while this thread is busy with imports, and end the process when the kernel leaves.

        The handler runs between two steps of the interpreter, so only a single long call in C delays it.
        """
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    def stop(self) -> None:
        """End what `go_on_by_itself` began; orders that came meanwhile are still to be read."""
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
