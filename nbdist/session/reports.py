"""The processes' reports: where they are, and what they hold as soon as a person asks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from nbdist.contract.calls.engine import Look, Looked
from nbdist.errors import GoneError, LaunchError
from nbdist.launch.start.request import Request
from nbdist.monitor import Monitor
from nbdist.quantities import seconds_text, where_text
from nbdist.session.health import Health

LOOK_SECONDS = 0.5
"""How long idle processes may take to say what they hold when a person asks."""

IDLE_SECONDS = 2.0
"""How long a process that has left its cell may take to report it; processes report at least once a second."""

POLL_SECONDS = 0.005

DEVICES_SECONDS = 5.0
"""How long after joining to wait for all processes to report their devices."""

FIRST_SECONDS = 30.0
"""A process that has joined reports within a tenth of a second; after this long, no report will come."""

AGAIN_SECONDS = 1.5
REPEAT_SECONDS = 0.05
"""How long processes that run already may take to report, and how often they are asked."""


class Reports:
    """The reports of the processes of one session.

    Args:
      monitor: Receives them.
      health: Knows the facts beside them.
      hosts: Host names by process id.
      send: Sends a process a request, as `EngineGroup.send`.
    """

    def __init__(
        self,
        monitor: Monitor,
        health: Health,
        hosts: Mapping[int, str],
        send: Callable[[int, Look], Request[Looked]],
    ) -> None:
        self._monitor = monitor
        self._health = health
        self._hosts = hosts
        self._send = send

    def busy(self, process_id: int) -> bool:
        """Return whether a process reports that it is in a cell."""
        return self._state(process_id) not in ("idle", None)

    def in_cell(self, process_id: int) -> bool:
        """Return whether a process is in a cell that has not ended.

        A report from before the end of a cell may come after that end, or after the end of the next cell. Such a
        report says of an ended cell that it runs.
        """
        activity = self._monitor.activity(process_id)
        return (
            activity is not None
            and activity.state != "idle"
            and not self._health.has_left(process_id, activity.run)
        )

    def doing(self, process_id: int) -> str:
        """Return which cell a process is in, and where: `process 0 is in cell 7, line 3`."""
        activity = self._monitor.activity(process_id)
        where = where_text([process_id], self._hosts)
        if activity is None or activity.cell is None:
            return f"{where} is busy"
        line = f", line {activity.line}" if activity.line is not None else ""
        return f"{where} is in cell {activity.cell}{line}"

    def look(self, in_cells: Collection[int]) -> None:
        """Make processes report what they hold now, so that the next picture is up to date.

        Args:
          in_cells: Processes that have not left their cells; their probes report by themselves.
        """
        facts = self._health.facts
        there = [
            p
            for p in sorted(self._hosts)
            if p not in in_cells and p not in facts.lost and p not in facts.stuck
        ]
        # Replies say that a cell has ended; the reports of that may still be on their way.
        deadline = time.monotonic() + IDLE_SECONDS
        while any(map(self.busy, there)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.renew([p for p in there if self._state(p) == "idle"], within_s=LOOK_SECONDS)

    def renew(self, process_ids: Sequence[int], *, within_s: float) -> None:
        """Make idle processes report what there is now, and wait for that, at most `within_s`."""
        deadline = time.monotonic() + within_s
        asked = self._ask(process_ids, Look(timeout_s=LOOK_SECONDS / 2))
        sequences = {}
        for process_id, request in asked.items():
            request.wait(max(0.0, deadline - time.monotonic()))
            if request.ready():
                # A process that has ended while it was asked reports nothing more; its end is reported elsewhere.
                with contextlib.suppress(GoneError):
                    sequences[process_id] = request.get()[0].sequence
        self._monitor.wait_for(sequences, timeout_s=within_s)

    def first(self, *, devices: bool) -> None:
        """Wait until every process that was just started has reported.

        Args:
          devices: Whether they have devices to report.

        Raises:
          LaunchError: The processes' reports do not arrive. Nothing of their cells would be seen, nor whether an
            interrupt may be sent to them.
        """
        # Their next look by themselves would come a little later.
        self.renew(list(self._hosts), within_s=DEVICES_SECONDS)
        deadline = time.monotonic() + FIRST_SECONDS
        while silent := [p for p in sorted(self._hosts) if self._state(p) is None]:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"{where_text(silent, self._hosts)} joined, but nothing that is published there has arrived "
                    f"within {seconds_text(FIRST_SECONDS)}: a port of ipyparallel's "
                    "controller may have been taken by another program. Everything was stopped; start again."
                )
            time.sleep(POLL_SECONDS)
        if devices:
            self._monitor.wait_for_all(timeout_s=DEVICES_SECONDS)

    def again(
        self, there: Sequence[int], repeat: Callable[[Sequence[int]], None], *, devices: bool
    ) -> None:
        """Wait a moment until processes that run already have reported, also in the middle of a cell.

        Args:
          there: The living processes.
          repeat: Makes them repeat their last reports.
          devices: Whether they have devices to report.
        """
        deadline = time.monotonic() + AGAIN_SECONDS
        repeated = Look(timeout_s=LOOK_SECONDS / 2, again=True)
        asked = self._ask(there, repeated)
        while time.monotonic() < deadline and not self._have_reported(there, devices=devices):
            # Repeated, since the monitor's subscription may not have been there.
            repeat(there)
            asked |= self._ask([p for p, request in asked.items() if request.ready()], repeated)
            time.sleep(REPEAT_SECONDS)

    def _ask(self, process_ids: Sequence[int], look: Look) -> dict[int, Request[Looked]]:
        asked = {}
        for process_id in process_ids:
            # One that ends meanwhile reports nothing more; its end is reported elsewhere.
            with contextlib.suppress(GoneError):
                asked[process_id] = self._send(process_id, look)
        return asked

    def _have_reported(self, process_ids: Sequence[int], *, devices: bool) -> bool:
        with_devices = {device.process_id for device in self._monitor.snapshot().devices}
        return all(
            self._monitor.activity(p) is not None and (p in with_devices or not devices)
            for p in process_ids
        )

    def _state(self, process_id: int) -> str | None:
        activity = self._monitor.activity(process_id)
        return None if activity is None else activity.state
