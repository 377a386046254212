"""The thread on each engine that reports the devices, meshes, named arrays and models of its process.

In come the user's namespace, the cell that runs, and an observer of each imported framework. Out go the sections
of a report, each as soon as it changes and again after a while.

The probe only observes, since a cell may be running: it imports no framework, starts no back end, runs nothing
that users wrote, calls no collective, and its thread reads no device memory. It holds no lock that the main thread
could want, so cells go on whatever happens to the probe.

Read after this `observer.py`, one look, and `walk.py`, which finds the arrays.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from nbdist.contract.snapshot import VERSION, NameSamples, Report
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.stacks import CodeOwners, MainThread
from nbdist.engine.probe import activity
from nbdist.engine.probe.activity import ActivityReader, Pace, Sections
from nbdist.engine.probe.observer import NamespaceLook, Observed
from nbdist.engine.probe.samples import SeenArray, Values, glance, samples_of
from nbdist.engine.probe.walk import Bounds
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""Seconds between two looks at the main thread: at most ten reports a second."""

IDLE_LOOK_SECONDS = 0.95
"""The same while no cell runs and nothing changes, a little more than `REPEAT_ACTIVITY_SECONDS`."""

CALM_SECONDS = 1.0
"""Time without a cell or a change after which a process counts as idle: what a cell has sent may still change."""

ACTIVITY_SHARE = 0.003
ARRAYS_SHARE = 0.004
"""Shares of wall time for looking and publishing; together under one percent."""

NAMES_SHARE = 0.02
"""The share of wall time between cells; names are looked at only then."""

MOST_SECONDS_BEFORE_REPLY = 0.02
"""How much a look at names may delay the reply of a cell; a look that needs more is done after the reply."""

MOST_SECONDS_ON_MAIN = 0.25
"""How much a look after the reply may delay the next cell; a look that needs more reads no arrays."""

READY_SECONDS = 0.01
"""How long to wait, on request, for an array that is being computed before looking at it once more."""

MOST_SECONDS_SILENT = 1.0
MOST_SECONDS_OLD = 10.0
"""Longest times until the next look at the activity, and at the arrays, however expensive the last look was."""

AFTER_FAILURE_SECONDS = 1.0


class Probe:
    """A publisher of reports, from a thread of its own until it is stopped.

    Args:
      publish: Called on the probe's thread with each report. It may block or raise: a report that could not be
        published is made again.
      namespace: Returns the user's names.
      process_id: The number of this process in the launch plan.
      host: This machine's name.
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      cell: Where that thread notes the cell it runs; the probe learns of starts and ends through it.
      frameworks: All frameworks; one that others build on comes before them.
      owners: Tells to whom code belongs.
      values: Reads small arrays; called on the main thread only, where no repair can be under way.
      on_main: Schedules a function on the main thread, for when that thread is idle.
      resting: Returns whether no repair is under way, on the main thread; during a repair there may be no devices.
      beside: Returns further state of the process that is reported as if it had names.
    """

    def __init__(
        self,
        *,
        publish: Callable[[Report], None],
        namespace: Callable[[], dict[str, object]],
        process_id: int,
        host: str,
        main_thread: int,
        cell: CurrentCell,
        frameworks: Sequence[Observed],
        owners: CodeOwners,
        values: Values | None = None,
        on_main: Callable[[Callable[[], None]], object] | None = None,
        resting: Callable[[], bool] = lambda: True,
        beside: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._publish = publish
        self._namespace = namespace
        self._values, self._beside, self._on_main = values, beside, on_main
        self._resting = resting
        self._empty = Report(
            version=VERSION, process_id=process_id, sequence=0, host=host, pid=os.getpid()
        )
        self._sequence = 0
        self._cell = cell
        self._content_run: int | None = None
        self._frameworks = frameworks
        self._activity = ActivityReader(cell, MainThread(main_thread), owners)
        self._look = NamespaceLook(
            frameworks, main_thread=main_thread, process_id=process_id, bounds=Bounds()
        )
        self._sections = Sections()
        self._activity_pace = Pace(
            share=ACTIVITY_SHARE, least_seconds=LOOK_SECONDS / 2, most_seconds=MOST_SECONDS_SILENT
        )
        self._arrays_pace = Pace(
            share=ARRAYS_SHARE, least_seconds=2 * LOOK_SECONDS, most_seconds=MOST_SECONDS_OLD
        )
        self._names_pace = Pace(
            share=NAMES_SHARE, least_seconds=LOOK_SECONDS / 2, most_seconds=MOST_SECONDS_OLD
        )
        self._asked_anew = False
        self._taken: NameSamples | None = None
        self._names_quick = True
        self._unread = False
        self._sent: int | None = None
        self._too_much: int | None = None
        self._answering = False
        self._reported_at = 0.0
        self._changed_at = time.monotonic()
        self._dozing = False
        self._stopping = threading.Event()
        self._asked = threading.Event()
        self._woken = threading.Event()
        self._looked = threading.Event()
        self._thread: threading.Thread | None = None
        self._guard = MessageGuard("A look of the probe", logger)
        cell.at_edges(self._look.note)
        cell.at_edges(self._at_edge)
        cell.after_each(self._after_cell)

    def start(self) -> None:
        """Start the thread; a second call changes nothing."""
        if self._thread is None:
            self._look.hook()
            self._thread = threading.Thread(target=self._run, name="nbdist-probe", daemon=True)
            self._thread.start()

    def stop(self, *, timeout_s: float = 1.0) -> None:
        """End the thread, waiting for it no longer than `timeout_s`, and leave the frameworks as they were."""
        self._stopping.set()
        self._hurry()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._look.unhook()

    def look_now(self, *, timeout_s: float) -> int:
        """Have the thread look at everything and report; wait for that no longer than `timeout_s`.

        Called on the main thread, which looks at names itself, and waits for arrays no longer than `timeout_s`
        either.

        Returns:
          The sequence number of the newest report: this report and earlier ones together describe the present
          state.
        """
        self._looked.clear()
        run, found = (self._ended_run() if self._resting() else None), None
        with self._guard:
            until = time.monotonic() + timeout_s
            found = None if run is None else self._read(run, within_s=timeout_s)
            while run and found and self._unread and time.monotonic() < until:
                time.sleep(READY_SECONDS)
                found = self._read(run, within_s=timeout_s)
        self._asked_anew = run is not None and found is None
        self._names_pace.hurry()
        self._arrays_pace.hurry()
        self._activity_pace.hurry()
        self._answering = True
        self._hurry()
        self._looked.wait(timeout_s)
        return self._sequence

    def say_again(self) -> None:
        """Have the thread report all sections again, for a kernel that has just attached."""
        self._sections.forget()
        self._hurry()

    def _hurry(self) -> None:
        self._asked.set()
        self._woken.set()

    def _at_edge(self) -> None:
        self._changed_at = time.monotonic()
        if self._dozing:
            self._woken.set()

    def _doze(self) -> None:
        """Wait while the process is idle and no look is asked for, no longer than between two looks."""
        self._woken.clear()
        self._dozing = True
        calm = time.monotonic() - self._changed_at >= CALM_SECONDS
        if calm and self._cell.running is None and not self._asked.is_set():
            self._woken.wait(IDLE_LOOK_SECONDS - LOOK_SECONDS)
        self._dozing = False

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._doze()
            self._asked.wait(LOOK_SECONDS)
            self._asked.clear()
            answering, self._answering = self._answering, False
            if self._stopping.is_set():
                return
            for part in (
                *(self._look_at_names, self._look_at_arrays, self._look_at_activity),
                self._report,
            ):
                if not self._attempt(part):
                    self._stopping.wait(AFTER_FAILURE_SECONDS)
                    self._changed_at = (
                        time.monotonic()
                    )  # what could not be sent is tried again soon
            if answering:
                self._looked.set()

    def _attempt(self, part: Callable[[], None]) -> bool:
        """Run one part of a look; return whether it succeeded. A failure does not stop the other parts."""
        # An observer's failure must not reach the process that it observes.
        with self._guard:
            part()
            return True
        return False

    def _look_at_arrays(self) -> None:
        # A framework may have been imported in the middle of this cell.
        self._look.hook()
        self._sections.put("progress", activity.newest())
        if self._arrays_pace.due():
            with self._arrays_pace.turn():
                before = self._ended_run()
                seen = self._look.now(self._namespace())
                self._sections.put("devices", seen.devices)
                self._sections.put("meshes", seen.meshes)
                self._sections.put("arrays", (seen.arrays, seen.arrays_omitted))
                self._sections.put("distributions", seen.distributions)
                self._sections.put("models", seen.models)
                self._content_run = before if before == self._ended_run() else None

    def _after_cell(self) -> None:
        """Look at names before the next cell can change them; a process that ends leaves only its reports."""
        run = self._cell.newest_run
        if run is None or not self._names_quick or not self._names_pace.due():
            return
        with self._guard, self._names_pace.turn():
            found = self._read(run, within_s=MOST_SECONDS_BEFORE_REPLY)
            self._names_quick = found is not None
            if found is not None and time.monotonic() - self._reported_at >= LOOK_SECONDS:
                self._hurry()

    def _look_at_names(self) -> None:
        """Look at names once after each cell, and on request."""
        if self._taken is not None:
            self._sections.put("samples", self._taken)
        run, before = self._ended_run(), self._taken
        taken = before is not None and before.run == run
        wanted = self._asked_anew or not taken or self._unread
        if run is None or not wanted or not self._names_pace.due():
            return
        if self._on_main is not None and not self._asked_anew and self._too_much != run:
            if self._sent != run:
                self._sent = run
                self._on_main(self._look_on_main)
            return
        with self._names_pace.turn():
            self._asked_anew = False
            began = time.thread_time()
            found = self._samples()
            self._names_quick = time.thread_time() - began < MOST_SECONDS_BEFORE_REPLY
        # The main thread has taken texts meanwhile, which say more.
        if found is not None and run == self._ended_run() and before is self._taken:
            self._taken = NameSamples(run=run, texts=found)
            self._sections.put("samples", self._taken)

    def _look_on_main(self) -> None:
        run = self._ended_run()
        if not self._resting():
            self._sent = None  # later
        elif run is not None:
            with self._guard, self._names_pace.turn():
                began = time.thread_time()
                if self._read(run, within_s=MOST_SECONDS_ON_MAIN) is None:
                    self._too_much = run
                self._names_quick = time.thread_time() - began < MOST_SECONDS_BEFORE_REPLY
            self._hurry()

    def _read(self, run: int, *, within_s: float) -> NameSamples | None:
        """Look at names after a cell, on the main thread; return None if it takes longer than `within_s`."""
        self._unread = False

        def values(array: Any) -> str | None:
            found = self._values(array) if self._values is not None else ""
            self._unread = self._unread or found is None
            return found

        found = self._samples(values=values, within_s=within_s)
        if found is None:
            return None
        self._taken = NameSamples(run=run, texts=found)
        return self._taken

    def _samples(
        self, *, values: Values | None = None, within_s: float = math.inf
    ) -> dict[str, str] | None:
        there = [one.model_glance for one in self._frameworks if one.is_imported()]
        glances = [one for one in there if one is not None]

        def seen(value: Any) -> SeenArray | None:
            found = (of_model(value) for of_model in glances)
            return next((one for one in found if one is not None), None) or glance(value)

        names = {**self._namespace(), **self._beside()}
        return samples_of(names, seen=seen, values=values, within_s=within_s)

    def _ended_run(self) -> int | None:
        """Return the newest cell, if it has ended; None in the middle of one."""
        newest = self._cell.newest_run
        return newest if self._cell.running is None else None

    def _look_at_activity(self) -> None:
        if self._activity_pace.due():
            with self._activity_pace.turn():
                self._sections.put_activity(self._activity.look(self._look.context_mesh()))

    def _report(self) -> None:
        due = self._sections.due(time.monotonic())
        if not due:
            return
        with self._paid_by(due):
            sections = dict(due)
            if "arrays" in due:
                sections["arrays"], sections["arrays_omitted"] = due["arrays"]
            report = structs.replace(
                self._empty,
                sequence=self._sequence + 1,
                content_run=self._content_run,
                **sections,
            )
            self._publish(report)
        self._sequence += 1
        self._reported_at = time.monotonic()
        if self._sections.sent(due, self._reported_at):
            self._changed_at = self._reported_at

    def _paid_by(self, due: Mapping[str, object]) -> Pace:
        """Return the pace that a report counts for: that of the most expensive look whose sections it has."""
        if "arrays" in due:
            return self._arrays_pace
        return self._names_pace if "samples" in due else self._activity_pace
