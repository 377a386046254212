"""A probe whose reports are kept and decoded, for tests and for the processes they start."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nbdist.contract import wire
from nbdist.contract.iopub import Encoder
from nbdist.contract.snapshot import Activity, Report
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.stacks import CodeOwners
from nbdist.engine.frameworks import frameworks
from nbdist.engine.probe import Probe
from tests.waiting import wait_for

CELL = "/tmp/ipykernel_17/482.py"


class Recorded:
    """A running probe on this thread's namespace."""

    def __init__(self, names: dict[str, Any], **options: Any) -> None:
        self.names = names
        self.reports: list[Report] = []
        self.times: list[float] = []
        self.cell = CurrentCell()
        self._encoder = Encoder()
        self._asked: dict[int, float] = {}
        self.probe = Probe(
            **{
                "publish": self._take,
                "namespace": lambda: self.names,
                "process_id": 3,
                "host": "h1",
                "main_thread": threading.get_ident(),
                "cell": self.cell,
                "frameworks": frameworks(),
                "owners": CodeOwners(frameworks()),
                **options,
            }
        )

    def _take(self, report: Report) -> None:
        self.times.append(time.monotonic())
        plain = json.loads(json.dumps(self._encoder.encode(report)))
        self.reports.append(wire.decode(Report, plain))

    def run(self, source: str, number: int = 7) -> None:
        """Runs code as a cell."""
        self.cell.started(number, source)
        try:
            exec(compile(source, CELL, "exec"), self.names)
        finally:
            self.cell.finished()

    def activities(self) -> list[Activity]:
        return [r.activity for r in self.reports if r.activity is not None]

    def wait(self, fulfilled: Callable[[], bool]) -> None:
        try:
            wait_for(fulfilled)
        except AssertionError as error:
            error.add_note(f"the last reports: {self.reports[-3:]}")
            raise

    def line(self, number: int, *, for_s: float = 0.0) -> bool:
        """Whether the cell that asks this, again and again, has been reported at a line, after so many seconds.

        Raises:
          AssertionError: It is not reported there within 60 s more.
        """
        running = [a for a in self.activities() if a.state == "running" and a.line == number]
        if running and (running[-1].cell_seconds or 0.0) >= for_s:
            return True
        began = self._asked.setdefault(number, time.monotonic())
        assert time.monotonic() < began + 60 + for_s, self.reports[-3:]
        return False

    def wait_for_arrays(self, *paths: str) -> None:
        """Until the newest list of arrays is this one."""
        self.wait(lambda: self.paths() == set(paths))

    def paths(self) -> set[str] | None:
        lists = [r.arrays for r in self.reports if r.arrays is not None]
        return {a.path for a in lists[-1]} if lists else None


@contextmanager
def recorded(names: dict[str, Any] | None = None, **options: Any) -> Iterator[Recorded]:
    """Starts a probe, and stops it at the end."""
    recorder = Recorded({} if names is None else names, **options)
    recorder.probe.start()
    try:
        yield recorder
    finally:
        recorder.probe.stop()
