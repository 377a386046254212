"""Step of this process with the others: counts of programs, proofs, and the end of waiting collectives.

In come the programs that this process sends to devices of several processes, seen by hooks in JAX
(`dispatched.py`); the beginnings and ends of cells; and requests of the kernel to prove or to cut. Out go counts
and names of the programs, and results of proofs (`Sent`, `Trail`, `Labels`, `Proven`). A cut ends the collectives
that wait; a repair follows.

A proof (`Proof`) takes small collectives of nbdist's own, with numbers that only they carry. In the first
collective each process takes part with one device, over connections that nothing else uses, so no data can be
taken for that of a user's collective, even if a process stays away. The processes compare how many programs each
has sent, and which. If this comparison is not enough, all devices then take part in a collective like the user's.

JAX keeps the order of a process's collectives. A process with another collective pending is paired wrongly in that
last collective, so the proof does not return, or returns numbers that no process has sent.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import structs

from nbdist.contract.calls.stepping import Labels, Proven, Sent, Trail, UnderWay
from nbdist.contract.iopub import CellStep
from nbdist.engine.cell.stacks import MainThread
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.step.cut import (
    ConnectionCut,
    Meetings,
    carrying,
    keep,
    let_go,
    listening_ports,
    silence,
    waiting,
)
from nbdist.engine.frameworks.jax.step.dispatched import (
    Dispatched,
    ProgramCount,
    arrays_under_way,
    serials_under_way,
)
from nbdist.engine.frameworks.jax.step.programs import (
    Gathering,
    calling,
    computed_seconds,
    raising,
    wait_for_arrays,
)

SAY_SECONDS = 0.05
"""A proof that takes longer is reported, since another process may have to be asked to take part."""

STUCK_SECONDS = 2.0
FREED_SECONDS = 0.5
"""Times after a cut at which a collective counts as stuck: one for waits for values, one for a back end that is to
be freed. Other collectives end within milliseconds, even on a busy machine."""

LEAST_SECONDS = 0.01
"""The unit of processor time in which progress is counted; less is no progress."""

SWITCH = "NBDIST_IN_STEP"
"""Environment variable; 0 turns counting and proofs off, to measure what they cost."""


WORD = 0xFFFFFFFF


@dataclass
class Trial:
    """One proof under way.

    `passed` is None until the numbers of all processes have come. `alike` says whether all processes had sent the
    same programs before, and `uneven` whether they had sent different numbers of programs.
    """

    number: int
    done: threading.Event = field(default_factory=threading.Event)
    passed: bool | None = None
    alike: bool = True
    error: str | None = None
    abandoned: bool = False
    uneven: bool = False

    def abandon(self) -> None:
        """End the wait for the proof, if it is not over; a later result proves nothing."""
        if not self.done.is_set():
            self.abandoned = True
            self.done.set()

    @property
    def in_step(self) -> bool:
        """Whether the trial has proven that all processes are in step."""
        return bool(self.passed) and self.alike and not self.abandoned


class Proof:
    """The collectives of proofs on one back end, compiled when this is made.

    Args:
      ignore: Called before and after a proof sends its programs, with the thread's ident, and with whether to
        leave that thread's programs out of the count.

    Raises:
      RuntimeError: JAX cannot compile a program.
    """

    def __init__(self, ignore: Callable[[int, bool], None]) -> None:
        import jax

        self._ignore = ignore
        devices = jax.devices()
        first = {device.process_index: device for device in reversed(devices)}
        # XLA makes new connections for each order of devices, and nothing else uses this reverse order.
        self._meeting = Gathering([first[process] for process in sorted(first, reverse=True)])
        self._all = Gathering(devices)

    def begin(self, number: int, count: ProgramCount, *, counted: bool) -> Trial:
        """Send this process's numbers, on a separate thread, since nothing interrupts a wait in C++.

        Args:
          number: The number of this proof, the same on all processes and never used before.
          count: The programs that this process has sent since all were last in step.
          counted: Whether this process accepts equal counts as proof; they are enough only if all processes say
            so.
        """
        trial = Trial(number)
        threading.Thread(
            target=self._run, args=(trial, count, counted), name="nbdist-proof", daemon=True
        ).start()
        return trial

    def _run(self, trial: Trial, count: ProgramCount, counted: bool) -> None:
        import numpy

        number = (trial.number & WORD, trial.number >> 32 & WORD)
        mine = [*number, count.programs & WORD, count.names, count.kinds, not counted]
        row = numpy.array([mine], numpy.uint32)
        try:
            self._ignore(threading.get_ident(), True)
            found = self._meeting.rows(row)
            # If the counts differ and the collective of all devices passes, the additional programs had no
            # collectives. The processes are then in step, but not alike: one has computed more than the others.
            trial.uneven = not bool((found[:, 2] == row[:, 2]).all())
            trial.alike = bool((found[:, 2:5] == row[:, 2:5]).all())
            passed = bool((found[:, :2] == row[:, :2]).all())
            # All processes have the same rows, and so come to the same result.
            if passed and (trial.uneven or found[:, 5].any()):
                passed = bool((self._all.rows(row)[:, :2] == row[:, :2]).all())
            trial.passed = passed
        except Exception as error:  # noqa: BLE001 - a failure here becomes a typed reply
            trial.passed, trial.error = False, f"{type(error).__name__}: {error}"
        finally:
            self._ignore(threading.get_ident(), False)
            trial.done.set()


class Step:
    """The counts, proofs and cuts of this process.

    Attributes:
      ports: The ports on which this process accepts connections for collectives.
      unsettled: Whether a cell has failed here since the processes were last known to be in step.
      proven: The number of the last proof that has passed here.

    Args:
      say: Publishes how the running cell has left this process, as output of the cell.
      before: The ports on which this process listened before its back end was up.
      interruptible: Context in which an interrupt may end the wait for others.
    """

    def __init__(
        self,
        say: Callable[[CellStep], None],
        *,
        before: Collection[int],
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._say = say
        self._interruptible = interruptible
        self._before = frozenset(before)
        self.dispatched = Dispatched()
        self._proof: Proof | None = None
        self._trial: Trial | None = None
        self._others: frozenset[int] = frozenset()
        self.ports: frozenset[int] = frozenset()
        self._cut = ConnectionCut()
        self._meetings = Meetings()
        self._cut_at: float | None = None
        self.unsettled = False
        self.proven: int | None = None
        self._said: tuple[int, int] | None = None

    def begin(self, generation: int | None = None) -> None:
        """Start counting for a new back end, also after each repair; `generation` as for `Dispatched.restart`."""
        import jax

        self._cut.release()
        self.ports = frozenset(listening_ports() - self._before)
        self.dispatched.devices = jax.device_count()
        if os.environ.get(SWITCH) != "0":
            self.dispatched.hook()
        self.dispatched.restart(generation)
        self._cut_at = None
        self._meetings = Meetings()
        self.unsettled = False
        self._proof = Proof(self._ignore)

    def meet(self, others: Collection[int]) -> None:
        """Take the ports at which the other processes accept connections for collectives."""
        self._others = frozenset(others)

    def listen_anew(self) -> None:
        """Prepare for the next back end: ports that are opened from now on belong to it."""
        self._proof = None
        self._before = frozenset(listening_ports() - self.ports)

    def _ignore(self, thread: int, ignored: bool) -> None:
        if ignored:
            self.dispatched.ignored.add(thread)
        else:
            self.dispatched.ignored.discard(thread)

    def sent(self) -> Sent:
        """Return counts of the programs sent since the processes were last in step, and in total."""
        generation, serial = self.dispatched.place
        return Sent(
            **asdict(self.dispatched.count),
            generation=generation,
            serial=serial,
            counted=self.dispatched.hooked,
            unsettled=self.unsettled,
            proven=self.proven,
        )

    def sent_so_far(self, main: MainThread) -> Sent:
        """Return the same as `sent` in the middle of a cell, without the main thread's help."""
        raised = raising()
        return structs.replace(
            self.sent(), calling=calling(main), raising=raised, progress=self._progress()
        )

    def _progress(self) -> tuple[int, int]:
        return (
            int(computed_seconds() / LEAST_SECONDS),
            self._cut.moved_bytes(self.ports, self._others),
        )

    def trail(self) -> Trail:
        """Return the counts of `sent`, and which programs these were."""
        sent = self.dispatched.count.programs
        left = serials_under_way(self.dispatched)
        return Trail(
            sent=self.sent(),
            trail=tuple(self.dispatched.trail)[-sent:] if sent else (),
            earliest=min(left, default=None),
            parts=dict(self.dispatched.parts),
            run=self.dispatched.made.run,
        )

    def under_way(self, common: int) -> UnderWay:
        """Return how many arrays are not computed yet, of programs that all processes have sent, and the progress.

        Args:
          common: The serial of the last of these programs.
        """
        return UnderWay(
            arrays=len(arrays_under_way(self.dispatched, common)),
            progress=self._progress(),
        )

    def begin_cell(
        self,
        run: int,
        targets: Collection[int],
        namespace: dict[str, Any],
        *,
        in_step: Sequence[int] | None = None,
        code: bool = True,
    ) -> None:
        """Begin a cell, or a round of copies; called on the main thread.

        If the processes are in step, a path leads to the same array on all. An array that no program has computed
        then gets the path that leads to it now as its origin.

        Args:
          run: The number of this sending of the cell.
          targets: The processes that run the cell.
          namespace: The user's namespace.
          in_step: The program after which the kernel knows all processes to be in step; see `CellLabel`.
          code: Whether code of the user's runs; none does in a round of copies.
        """
        if in_step is not None and tuple(in_step) == self.dispatched.place:
            self.dispatched.in_step()
        jax = sys.modules["jax"]
        everywhere = len(targets) == jax.process_count()
        known = everywhere and self._proof is not None and not self.dispatched.count.any
        self.dispatched.begin_cell(run, same=known, code=code)
        if not known:
            return
        origins = self.dispatched.origins
        new = [a for a in jax.live_arrays() if not a.is_fully_addressable and a not in origins]
        if new:
            paths = array_paths(namespace, jax.Array)
            origins.note_paths(new, paths, generation=self.dispatched.generation, run=run)

    def end_cell(self, number: int, *, failed: bool, compared: bool = False) -> None:
        """End a cell on the main thread: if it used other processes' devices, check that all are in step.

        If the kernel compares what the processes have sent, each process waits until its programs are computed,
        and reports which programs it has sent. Otherwise the processes run a proof. A process on which the cell
        failed waits for no other process: it reports at once, and the kernel asks it later. An interrupt ends the
        wait as `abandon` does.

        Args:
          number: The number of this sending of the cell, the same on all processes.
          failed: Whether the cell's code has failed here.
          compared: Whether the kernel compares the processes before any of them runs another cell.
        """
        self.dispatched.made.in_cell = False
        if self._proof is None or os.environ.get(SWITCH) == "0":
            return
        self.unsettled = failed
        dispatched = self.dispatched
        count = dispatched.count
        if (
            dispatched.hooked
            and not count.parts
            and (not count.any or self._said == dispatched.place)
        ):
            return
        if failed:
            self._say(CellStep(number=number, sent=self.sent()))
            return
        if compared and dispatched.hooked:
            self._say_when_computed(number)
            return
        trial = self._proof.begin(number, count, counted=dispatched.hooked and not count.parts)
        self._wait(trial, compared=False)
        proven = self._after(trial)
        self.unsettled = not trial.in_step
        if not (proven.passed and proven.alike):
            self._say(CellStep(number=number, proven=proven, sent=self.sent()))

    def _say_when_computed(self, number: int) -> None:
        """Report what this process has sent, once that is computed."""
        since = self._said[1] if self._said and self._said[0] == self.dispatched.generation else 0
        if arrays := arrays_under_way(self.dispatched, self.dispatched.serial, since=since):
            trial = Trial(number)
            wait_for_arrays(arrays, trial.done.set)
            self._wait(trial, compared=True)
            if trial.abandoned:
                self.unsettled = True
                given_up = Proven(passed=None, alike=True)
                self._say(CellStep(number=number, compared=True, proven=given_up, sent=self.sent()))
                return
        self._said = self.dispatched.place
        self._say(CellStep(number=number, compared=True, sent=self.sent()))

    def _wait(self, trial: Trial, *, compared: bool) -> None:
        """Wait for a trial; report it if it takes longer than `SAY_SECONDS`."""
        self._trial = trial
        try:
            with self._interruptible():
                if not trial.done.wait(SAY_SECONDS):
                    self._say(
                        CellStep(
                            number=trial.number, compared=compared, proving=True, sent=self.sent()
                        )
                    )
                trial.done.wait()
        except KeyboardInterrupt:
            trial.abandon()

    def labels(self) -> Labels:
        """Return the names of the newest programs since all were in step, and their collectives."""
        names = tuple(name.decode(errors="replace") for name in self.dispatched.labels)
        kinds, given = tuple(self.dispatched.kinds), tuple(self.dispatched.given)
        return Labels(labels=names, kinds=kinds, given=given)

    def prove(self, number: int, *, timeout_s: float, compared: bool) -> Proven:
        """Take part in a proof that a kernel asks for.

        Args:
          number: The number of the proof.
          timeout_s: Time limit of the wait for the others.
          compared: Whether the kernel has compared the names of the programs that the processes have sent.
        """
        if self._proof is None:
            return Proven(passed=False, alike=True, error="no back end is up")
        if self._meetings.ended:
            return Proven(passed=False, alike=True, error="a group of devices can no longer meet")
        trial = self._proof.begin(number, self.dispatched.count, counted=False)
        trial.done.wait(timeout_s)
        trial.alike = trial.alike or compared
        return self._after(trial)

    def _after(self, trial: Trial) -> Proven:
        passed = None if trial.abandoned else trial.passed
        if trial.in_step:
            if trial.uneven:
                self.dispatched.renumber()
            self.dispatched.in_step()
            self.unsettled = False
            self.proven = trial.number
        return Proven(passed=passed, alike=trial.alike, error=trial.error)

    def abandon(self) -> None:
        """End the wait of the main thread for a proof, from any thread; nothing is proven then."""
        if self._trial is not None:
            self._trial.abandon()

    def cut(self) -> int:
        """End all collectives that wait, from any thread; a repair must follow."""
        if self._cut_at is None:
            self._cut_at = time.monotonic()
        self._meetings.end(self.ports)
        return self._cut.cut(self.ports, self._others)

    @property
    def stuck(self) -> bool:
        """Whether a collective still waits some time after it was cut; it may wait for half an hour."""
        since = self._cut_at
        long_ago = since is not None and time.monotonic() - since > STUCK_SECONDS
        return long_ago and bool(carrying(self.ports) or waiting())

    def until_freed(self, back_end: Any) -> None:
        """Wait until no collective of the old back end is left.

        A collective that is left after a moment is stuck. Its connection is silenced, so that it uses no processor
        time, and the back end is kept until gloo gives up: freeing the back end would wait as long.
        """
        let_go()
        until = time.monotonic() + FREED_SECONDS
        while (left := carrying(self.ports)) or waiting():
            if time.monotonic() > until:
                self._before |= self.ports
                silenced = [one for one in left if silence(one)]
                threads = waiting()
                if silenced or threads:
                    keep(back_end, threads)
                return
            time.sleep(0.01)
