"""`Session`: the one object a user holds. Every magic is one method of it."""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import nbdist.values as move
from nbdist.engine.frameworks import framework
from nbdist.errors import OptionError, SessionError
from nbdist.launch import join, start
from nbdist.launch.calling import Asked, ask
from nbdist.launch.choose import make_plan
from nbdist.launch.plan import Plan
from nbdist.merge import Known, Planned
from nbdist.monitor import Monitor
from nbdist.quantities import count_text, processes_text, seconds_text
from nbdist.run.cellrun import CellHandle, CellRun
from nbdist.run.choice import Choice, Targets
from nbdist.run.execution import Cell
from nbdist.run.facts import Facts
from nbdist.run.standing import Standing
from nbdist.snapshot import Snapshot
from nbdist.transfer import LARGE_BYTES
from nbdist.view.feed import Feed
from nbdist.view.picture import Picture
from nbdist.view.shards import Shards
from nbdist.view.text import status_text

ANSWER_SECONDS = 30.0
"""How long an idle process may take to answer a small request."""

MAX_PICTURES = 8
"""The stills of the newest views are kept up to date; older ones stay as they are."""

DEVICES_SECONDS = 5.0
"""How long after joining is waited for all processes to report their devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCell:
    """One entry of the history: what ran where, when (Unix seconds), how long, and how it ended."""

    number: int
    code: str
    targets: tuple[int, ...]
    started: float
    seconds: float
    outcome: str


class Session:
    """Processes that run cells together; also a context manager that ends them.

    Made by `nbdist.start`. All methods may be called from the thread that runs cells.
    """

    def __init__(self, plan: Plan, *, grace_s: float, tell: start.Tell) -> None:
        self.plan = plan
        self.id = uuid.uuid4().hex[:8]
        self.feed = Feed()
        self.history: list[PastCell] = []
        self._grace_s = grace_s
        self._numbers = itertools.count(1)
        self._choice = Choice(plan.hosts, lambda: self._facts, lambda p: self._monitor.activity(p))
        self._pictures: list[Picture] = []
        self._running: start.Running | None = None
        self._lock = threading.Lock()
        self._start(tell)

    def _start(self, tell: start.Tell) -> None:
        started = time.monotonic()
        running = start.start(self.plan, tell=tell)
        try:
            self.answers = join.join(running, tell=tell)
        except BaseException:
            running.stop()
            raise
        self._running = running
        self._facts = Facts(processes=len(self.plan.processes))
        self._monitor = Monitor(
            session=self.id,
            planned=tuple(
                Planned(process_id=p.process_id, host=p.host, role=p.role)
                for p in self.plan.processes
            ),
            connection=running.connection,
            publish=self._publish,
        )
        self._monitor.start()
        running.on_event = self._host_event
        if self.plan.initialize:
            self._monitor.wait_for_all(timeout_s=DEVICES_SECONDS)
        self.seconds_to_start = time.monotonic() - started
        atexit.register(self.shutdown)

    # -- what is there -------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the session has processes."""
        return self._running is not None

    @property
    def hosts(self) -> Mapping[int, str]:
        """Host name by process id."""
        return self.plan.hosts

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self._facts.out_of_step

    @property
    def client(self) -> Any:
        """ipyparallel's own client of the engines, for what nbdist does not do."""
        return self._alive().client

    def snapshot(self) -> Snapshot:
        """What is known of the whole session now, as plain data."""
        return self._monitor.snapshot()

    def status(self) -> str:
        """One row a process, as `%dist_status` prints it."""
        return status_text(self.snapshot())

    def mesh(self, path: str | None = None) -> Picture:
        """The view of this session, and of where one array lies; `show()` displays it."""
        picture = Picture(self.feed, self.snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def _publish(self, snapshot: Snapshot) -> None:
        """Called on the monitor's thread with each new snapshot."""
        self.feed.push(snapshot)
        for picture in self._pictures:
            picture.follow(snapshot)

    def describe(self) -> str:
        """One line: processes, hosts, devices, and how long the start took."""
        hosts = sorted(set(self.hosts.values()))
        where = "this machine" if len(hosts) == 1 else count_text(len(hosts), "host")
        answer = next(iter(self.answers.values()))
        software = f"{self.plan.framework} {answer['version']}"
        chosen = "" if self.plan.platform_chosen else " (chosen automatically)"
        devices = (
            f"{answer['global']} {self.plan.platform} devices{chosen}"
            if ("global" in answer)
            else f"platform {self.plan.platform}{chosen}, not initialized"
        )
        return (
            f"{count_text(len(self.plan.processes), 'process')} on {where}, {devices}, {software}, "
            f"ready in {seconds_text(self.seconds_to_start)}"
        )

    # -- cells -----------------------------------------------------------------------------------

    def run(
        self,
        code: str,
        *,
        on: Targets = None,
        timeout_s: float | None = None,
        grace_s: float | None = None,
        wait: bool = True,
        cell: int | None = None,
        offset: int = 0,
        renderer: Any = None,
    ) -> CellHandle:
        """Runs code on the processes and shows its output as it comes.

        Args:
          code: What IPython runs as a cell: statements, magics, `!cmd`, top-level `await`.
          on: Target words (`"0,2:4"`, `"[0,1-2]"`, `"host=h1"`) or process ids; default: all.
          timeout_s: Interrupt the cell after so many seconds.
          grace_s: How long other processes may stay in the cell when one has failed.
          wait: Return when the cell has ended; otherwise at once.
          cell: The notebook's execution count; default: counted here.
          offset: Lines of the notebook's cell above `code`.
          renderer: Draws the output; default: the notebook's or the terminal's.

        Returns:
          A handle; `handle.wait()` shows and raises what the cell does.

        Raises:
          ProcessError: The cell failed on some process; carries the first cause.
          CellTimeout: It did not end within `timeout_s`.
          SessionError: The session has ended, or a target is still busy or gone.
          TargetError: `on` names no process.
        """
        running = self._alive()
        chosen = self._choice.targets(on)
        number = cell if cell is not None else next(self._numbers)
        handle = CellRun(
            Cell(number=number, code=code, offset=offset),
            targets=chosen,
            link=running,
            hosts=self.hosts,
            monitor_activity=self._monitor.activity,
            monitor_silence=self._monitor.silence,
            interrupt=self._interrupt,
            folder=Path(running.folder) / "output",
            grace_s=self._grace_s if grace_s is None else grace_s,
            timeout_s=timeout_s,
            out_of_step=self._facts.out_of_step,
            remarks=self._choice.remarks(on, chosen),
            told=self._told,
            ended=self._ended,
            renderer=renderer,
        ).begin()
        if wait:
            handle.wait()
        return handle

    def _interrupt(self, process_ids: Sequence[int]) -> None:
        self._alive().signal(framework(self.plan.framework).INTERRUPT, process_ids)

    def interrupt(self) -> None:
        """Interrupts what runs on all processes; the session is out of step afterwards."""
        self._interrupt(sorted(self.hosts))

    def _told(self, standings: dict[int, Standing]) -> None:
        self._monitor.know(self._facts.known(standings))

    def _ended(self, cell: Cell, standings: dict[int, Standing], started: float) -> Facts:
        """Learns from a cell that has ended."""
        self._facts = self._facts.after(standings, cell.number)
        self._monitor.know(self._facts.known())
        failed = [s for s in standings.values() if s.outcome != "finished"]
        self.history.append(
            PastCell(
                number=cell.number,
                code=cell.code,
                targets=tuple(standings),
                started=started,
                seconds=time.time() - started,
                outcome=failed[0].outcome if failed else "finished",
            )
        )
        return self._facts

    def _host_event(self, event: dict[str, Any]) -> None:
        """A process has ended, also between cells."""
        running = self._running
        if running is None or event["event"] not in ("exited", "ended"):
            return
        with self._lock:
            ends = running.exits
            new = {p: str(end) for p, end in ends.items() if p not in self._facts.lost}
            if new:
                standings = {
                    p: Standing(process_id=p, host=self.hosts[p], outcome="gone", error=text)
                    for p, text in new.items()
                }
                last = self.history[-1].number if self.history else 0
                self._facts = self._facts.after(standings, last)
                self._monitor.know(self._facts.known())

    # -- values ----------------------------------------------------------------------------------

    def push(self, values: Mapping[str, Any], *, on: Targets = None) -> None:
        """Puts values of this kernel into the processes' namespaces under these names.

        Raises:
          ArrayError: A value that cannot be pickled; nothing has been sent.
        """
        self._alive()
        move.push(self._send, self._choice.targets(on), values)

    def pull(
        self,
        expression: str,
        *,
        on: Targets = None,
        limit_bytes: int = LARGE_BYTES,
        confirm: Callable[[str], bool] | None = None,
    ) -> Any:
        """Brings one value here; a global array whole, as NumPy, each unique shard sent once.

        A typed PRNG key comes as its key data. A value that is no array comes from the first
        target, and its data is pickled.

        Args:
          expression: A name, or any expression, of the processes' namespace.
          on: From these processes only; default: all.
          limit_bytes: Arrays larger in whole are refused, or asked about.
          confirm: Asked with a sentence before a larger array is sent.

        Raises:
          ArrayError: Unknown, deleted, donated, a tracer, too large, or not picklable.
        """
        self._alive()
        return move.pull(
            self._send,
            self._choice.targets(on),
            expression,
            framework=self.plan.framework,
            limit_bytes=limit_bytes,
            confirm=confirm,
        )

    def shards(self, expression: str) -> Shards:
        """Where the pieces of one array lie.

        Raises:
          ArrayError: `expression` is no JAX array, or one without values.
        """
        self._alive()
        first = self._choice.targets(None)[0]
        request = self._send(first, "shards", expression=expression, framework=self.plan.framework)
        return Shards.decode(request.get(ANSWER_SECONDS)[0], self.snapshot())

    # -- asking ----------------------------------------------------------------------------------

    def _send(self, process_id: int, name: str, *buffers: bytes, **arguments: Any) -> Asked:
        running = self._alive()
        where = f"process {process_id} (host {self.hosts[process_id]})"
        view = running.client[running.engines[process_id]]
        return ask(view, name, *buffers, where=where, **arguments)

    def ask_idle(self, name: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any] | None:
        """Asks the lowest idle process; None when none is idle or none answers in time."""
        for process_id in sorted(self.hosts):
            activity = self._monitor.activity(process_id)
            if process_id in self._facts.lost or (activity and activity.state != "idle"):
                continue
            try:
                return self._send(process_id, name, **arguments).get(timeout_s)[0]
            except TimeoutError:
                return None
        return None

    # -- the end ---------------------------------------------------------------------------------

    def sync(self, *, timeout_s: float | None = None) -> None:
        """Waits until every process has finished what it was given.

        Raises:
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        self._alive()
        asked = {
            p: self._send(p, "complete", code="", cursor=0) for p in self._choice.targets(None)
        }
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for request in asked.values():
            while not request.ready():
                request.wait(0.05)
                if deadline is not None and time.monotonic() > deadline:
                    busy = [p for p, other in asked.items() if not other.ready()]
                    raise TimeoutError(f"{processes_text(busy)} still busy after {timeout_s:g} s.")

    def restart(self, *, tell: start.Tell | None = None) -> None:
        """Stops all processes and starts the same plan afresh; their variables are lost."""
        self.shutdown()
        self._start(tell or _silent)

    def shutdown(self) -> None:
        """Stops what was started, by handle; a second call does nothing."""
        running, self._running = self._running, None
        if running is None:
            return
        atexit.unregister(self.shutdown)
        self._monitor.know(Known(stopped=True))
        running.on_event = None
        running.stop()
        self._monitor.stop()

    def _alive(self) -> start.Running:
        if self._running is None:
            raise SessionError("The session has ended. %dist_init starts one.")
        return self._running

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def __repr__(self) -> str:
        state = self.describe() if self.alive else "ended"
        return f"<nbdist.Session {self.id}: {state}>"


def _silent(stage: str, done: int, total: int) -> None:
    """Reports no progress."""


def start_session(
    processes: int | None = None,
    *,
    grace_s: float = 3.0,
    tell: start.Tell | None = None,
    **options: Any,
) -> Session:
    """Starts processes on this machine and joins them to one cluster.

    Args:
      processes: How many; default 2 on CPU, one a GPU.
      grace_s: Seconds others may stay in a cell in which one process has failed.
      tell: Called with (stage, done, total) while it starts.
      **options: See `nbdist.launch.choose.make_plan`.

    Raises:
      OptionError: Something that cannot be; nothing was started.
      LaunchError: It could not be started; nothing is left.
    """
    if grace_s < 0:
        raise OptionError(f"--grace {grace_s:g}: must be 0 or more seconds.")
    return Session(make_plan(processes=processes, **options), grace_s=grace_s, tell=tell or _silent)
