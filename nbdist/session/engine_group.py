"""The processes of a session while they live: the way to them, what they say, what is known of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from nbdist.cells.facts import Facts
from nbdist.cells.outcome import Outcome, ProcessOutcome
from nbdist.cells.target_selector import TargetSelector
from nbdist.contract.asides import Aside
from nbdist.contract.events import Exited, Fault
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import GoneError, NbdistError, SessionError
from nbdist.launch.files.sync import Copied, Files
from nbdist.launch.model import roles
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import Happening, HostEnded, HostsSilent, ProcessLost
from nbdist.launch.model.progress import StartProgress
from nbdist.launch.sessions.attached_cluster import AttachedCluster
from nbdist.launch.start import initialize as join
from nbdist.launch.start import sequence as start
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.request import Request, ask
from nbdist.launch.start.spawn import Spawned
from nbdist.merge import Known, Planned
from nbdist.monitor import Monitor
from nbdist.quantities import count_text, processes_text, seconds_text, where_text
from nbdist.session.asking import Asking
from nbdist.session.engine_state import EngineState
from nbdist.widgets import Widgets

RECOVER = (
    "%dist_recover brings the processes in step, %dist_pull brings values here, "
    "%dist_init --restart starts afresh."
)

LOOK_SECONDS = 0.5
"""How long idle processes may take to say what they hold, when a person asks."""

IDLE_SECONDS = 2.0
"""How long a process that has left its cell may take to report so; it does at least once a second."""

POLL_SECONDS = 0.005

IMPORTED_SECONDS = 2.0
"""How long processes may take to say what they have imported; those in a cell do not answer."""

AGAIN_SECONDS = 1.5
REPEAT_SECONDS = 0.05
"""How long processes that run already may take to tell of themselves, and how often they are asked."""

STACK_SECONDS = 3.0
"""How long processes may take to read their stacks, and to note that they are to stop."""

NATIVE_SECONDS = 25.0
"""How long processes may take to have py-spy read their stacks."""

REPLIES = 10
"""So often a process is sent a line that it has not said to have."""

DEVICES_SECONDS = 5.0
"""How long after joining is waited for all processes to report their devices."""


class EngineGroup:
    """Connected and watched processes; stopped once and for all by `stop`, or left to themselves by `leave`.

    Made by `begin` or `again`. `state` is where they are in their life.

    Args:
      link: The way to them.
      session: The session's id, as snapshots carry it.
      publish: Hears each new snapshot, on the monitor's thread.
    """

    def __init__(self, link: Cluster, *, session: str, publish: Callable[[Snapshot], None]) -> None:
        self.link = link
        self.state = EngineState.STARTING
        plan = self.plan = link.plan
        self.answers: Mapping[int, dict[str, Any]] = {}
        self.seconds_to_start = 0.0
        self._came = "ready"
        self._brought: list[str] = []
        self.facts = Facts(
            workers=frozenset(worker.process_id for worker in plan.workers),
            way_on=framework_named(plan.framework).after_failure,
        )
        self.last_cell = 0
        self._lock = threading.Lock()
        self.proves = False
        self.asked_alone: list[Request] = []
        # After which program, as generation and serial, they were when last compared.
        self.in_step_at: tuple[int, int] | None = None
        self.settling = threading.RLock()
        # Set by an interrupt while they are brought in step: what need not be waited for is not any longer.
        self.hurry = threading.Event()
        self._standings: Mapping[int, ProcessOutcome] = {}
        # It listens before there is anything to hear: a subscription takes a moment.
        self.monitor = Monitor(
            session=session,
            planned=tuple(
                Planned(process_id=p.process_id, host=p.host, role=p.role, task=roles.task(plan, p))
                for p in plan.processes
            ),
            connection=link.connection,
            publish=publish,
        )
        self._asking = Asking(link.agents.ask)
        self.widgets = Widgets()
        self.monitor.on_answer = self._asking.put
        self.monitor.start()
        self.choice = TargetSelector(
            plan.hosts,
            named=roles.named(plan),
            workers=self.facts.workers,
            facts=lambda: self.facts,
            activity=self.monitor.activity,
        )

    @classmethod
    def begin(
        cls,
        spawned: Spawned,
        *,
        session: str,
        progress: StartProgress,
        publish: Callable[[Snapshot], None],
    ) -> EngineGroup:
        """Starts processes whose agents are there.

        Raises:
          LaunchError: They could not be started; nothing is left.
        """
        # Only when they have started is it known where a scheduler has put them.
        engines = cls(start.start(spawned, progress=progress), session=session, publish=publish)
        try:
            engines.answers = join.join(engines.link, progress=progress)
            engines.meet({p: a["ports"] for p, a in engines.answers.items() if "ports" in a})
            engines._connect_all()
            engines._hear_all()
        except BaseException:
            engines.link.stop()
            engines.monitor.stop()
            raise
        engines._brought = engines._files_brought()
        engines._watch(spawned.began)
        return engines

    @classmethod
    def again(
        cls,
        regained: AttachedCluster,
        *,
        session: str,
        progress: StartProgress,
        publish: Callable[[Snapshot], None],
        since: int | None = None,
        stuck: frozenset[int] = frozenset(),
    ) -> EngineGroup:
        """Watches processes that run already; `since` and `stuck` as in `Facts`.

        Raises:
          LaunchError: Their framework could not be initialized; they go on.
        """
        engines = cls(regained.link, session=session, publish=publish)
        engines.facts = replace(engines.facts, since=since, stuck=stuck)
        engines.monitor.know(engines.facts.known())
        try:
            engines.answers = regained.answers or join.join(engines.link, progress=progress)
            engines._can_prove("ports" in answer for answer in engines.answers.values())
            engines._hear_again()
        except BaseException:
            engines.leave()
            raise
        engines._came = "attached"
        engines._watch(regained.began)
        engines._see_who_has_ended()  # while no kernel was there
        return engines

    def _connect_all(self) -> None:
        """Has the processes run a first collective: the one that opens the connections cannot be cut short."""
        if self.proves:
            number = self.next_number()
            for process_id in sorted(self.facts.workers):
                self.send(
                    process_id, "prove", number=number, timeout_s=DEVICES_SECONDS, compared=True
                )

    def _can_prove(self, told: Iterable[bool]) -> None:
        """Whether the processes can prove that they are in step, and so need not be believed."""
        self.proves = len(self.facts.workers) > 1 and all(told)
        self.facts = replace(self.facts, proves=self.proves)
        if self.proves:
            self.facts = replace(self.facts, way_on=RECOVER)

    def meet(self, ports: Mapping[int, Sequence[int]]) -> None:
        """Has each process know on which ports the others take the connections of collectives."""
        self._can_prove(p in ports for p in self.facts.workers)
        if not self.proves:
            return
        asked = [
            self.send(p, "meet", ports=[port for q, its in ports.items() if q != p for port in its])
            for p in ports
        ]
        for request in asked:
            request.get(DEVICES_SECONDS)

    @staticmethod
    def next_number() -> int:
        """A number for a proof or a sending: it rises from one to the next, in whichever kernel."""
        return time.time_ns()

    def _watch(self, began: float) -> None:
        self.state = self.state.to(EngineState.RUNNING)
        self.link.agents.events.subscribe(self._host_event)
        for text in self.link.agents.faults:
            self.monitor.fault(text)
        self.seconds_to_start = time.monotonic() - began

    def _hear_again(self) -> None:
        """Waits a moment until every process has told of itself, also in the middle of a cell."""
        deadline = time.monotonic() + AGAIN_SECONDS
        there = [p for p in self.plan.hosts if p not in self.link.exits]
        idle = {p: self.send(p, "look", timeout_s=LOOK_SECONDS / 2, again=True) for p in there}
        devices = framework_named(self.plan.framework).summary(self.plan, self.answers) is not None
        while time.monotonic() < deadline and not self._heard(there, devices=devices):
            # Again and again: the monitor's subscription may not have been there.
            self.link.agents.ask(Aside.REPEAT, there)
            idle |= {
                p: self.send(p, "look", timeout_s=LOOK_SECONDS / 2, again=True)
                for p, asked in idle.items()
                if asked.ready()
            }
            time.sleep(REPEAT_SECONDS)

    def _heard(self, process_ids: Sequence[int], *, devices: bool) -> bool:
        told = {device.process_id for device in self.monitor.snapshot().devices}
        return all(
            self.monitor.activity(p) is not None and (p in told or not devices) for p in process_ids
        )

    def _hear_all(self) -> None:
        """Waits until every process has told of itself, and of its devices where it has any to tell of."""
        # Their next look by themselves would come a little later.
        self._have_told(list(self.plan.hosts), within_s=DEVICES_SECONDS)
        if framework_named(self.plan.framework).summary(self.plan, self.answers) is not None:
            self.monitor.wait_for_all(timeout_s=DEVICES_SECONDS)

    @property
    def alive(self) -> bool:
        """Whether they were neither stopped nor left."""
        return self.state is not EngineState.ENDED

    def living(self) -> Self:
        """These, while they live.

        Raises:
          SessionError: They were stopped, or this kernel has left them.
        """
        if not self.alive:
            raise SessionError("The session has ended. %dist_init starts one.")
        return self

    def host_text(self, host: str) -> str:
        """`host h1`; `this machine` where the kernel has put all processes there."""
        return "this machine" if self.plan.placement.on_this_machine else f"host {host}"

    def describe(self) -> str:
        """One line: processes, hosts, devices, and how long the start took."""
        plan = self.plan
        hosts = set(plan.hosts.values())
        where = self.host_text(hosts.pop()) if len(hosts) == 1 else count_text(len(hosts), "host")
        chosen = "" if plan.platform_chosen else " (chosen automatically)"
        computes = framework_named(plan.framework).summary(plan, self.answers)
        devices = (
            f"{computes}{chosen}"
            if computes is not None
            else f"platform {plan.platform}{chosen}, not initialized"
        )
        version = next(iter(self.answers.values()))["version"]
        named = f"{plan.framework} {version}" if version else plan.framework
        return (
            f"{count_text(len(plan.processes), 'process')} on {where}, {devices}, "
            f"{named}, {self._came} in {seconds_text(self.seconds_to_start)}"
        )

    @property
    def remarks(self) -> list[str]:
        """What a person must know of this start, each sentence once."""
        found = [f"{one.host}: {one.what}. {one.do}" for one in self.link.warnings]
        found = [*self.plan.placement.remarks, *self._brought, *found]
        return [*found, *framework_named(self.plan.framework).remarks(self.plan, self.answers)]

    def send(self, process_id: int, name: str, *buffers: bytes, **arguments: Any) -> Request:
        """Sends a request to one process; see `nbdist.launch.start.request.ask`.

        Raises:
          GoneError: The process has ended, or this kernel has left it.
        """
        if self.state is EngineState.ENDED:
            raise GoneError(f"{self.where(process_id)} is of a session that has ended.")
        try:
            view = self.link.client[self.link.engines[process_id]]
        except IndexError as error:  # ipyparallel's, for an engine that has left
            raise GoneError(f"{self.where(process_id)} has ended.") from error
        return ask(view, name, *buffers, where=self.where(process_id), **arguments)

    def where(self, process_id: int) -> str:
        """`process 1 (host h1)`, without the host where there is one only."""
        return where_text([process_id], self.plan.hosts)

    def gone(self, process_id: int) -> str | None:
        """How a process has ended; None while it lives."""
        return self.facts.lost.get(process_id)

    def busy(self, process_id: int) -> bool:
        """Whether a process has said of itself that it is in a cell."""
        activity = self.monitor.activity(process_id)
        return activity is not None and activity.state != "idle"

    def in_cell(self, process_id: int) -> bool:
        """Whether a process is in a cell that has not ended.

        A report from before the end of a cell may come after it: it says of a cell that has ended that it runs.
        """
        activity = self.monitor.activity(process_id)
        return activity is not None and activity.state != "idle" and activity.cell != self.last_cell

    def doing(self, process_id: int) -> str:
        """Which cell a process is in, and where: `process 0 is in cell 7, line 3`."""
        activity = self.monitor.activity(process_id)
        where = where_text([process_id], self.plan.hosts)
        if activity is None or activity.cell is None:
            return f"{where} is busy"
        line = f", line {activity.line}" if activity.line is not None else ""
        return f"{where} is in cell {activity.cell}{line}"

    def digests(self, process_ids: Sequence[int], code: str) -> dict[int, dict[str, str]] | None:
        """What must be equal before a cell, in short; None where a process is busy or does not answer soon."""
        if not self.link.agents.reaches_past_main_threads or any(map(self.busy, process_ids)):
            return None
        found = self._asking.ask(Aside.COMPARE, process_ids, code=code)
        return dict(found) if len(found) == len(process_ids) else None

    def stop_at_step(self, process_ids: Sequence[int], run: int) -> dict[int, int | None]:
        """Asks processes to leave a cell before the same step; how many steps have begun on each that answers.

        None stands for one in which the cell does not run.

        Raises:
          SessionError: Somebody else has started these processes, or they cannot agree on a step.
        """
        if not self.link.agents.reaches_past_main_threads:
            raise SessionError(
                "These processes were not started by nbdist: nothing reaches them while they run a cell. "
                "%dist_interrupt interrupts it."
            )
        framework = framework_named(self.plan.framework)
        if not framework.stops_at_steps:
            raise SessionError(
                "The processes agree on a common step through JAX's coordinator, but this session computes with "
                f"{framework.title}. %dist_interrupt interrupts the cell."
            )
        found = self._asking.ask(Aside.STOP, process_ids, within_s=STACK_SECONDS, run=run)
        return {p: answer["steps"] for p, answer in found.items()}

    def reply(self, process_id: int, number: int, reply: Mapping[str, Any]) -> bool:
        """Sends a process the reply to a question of its debugger; see `nbdist.engine.cell.debugger.lines`.

        Returns:
          Whether the process has taken it; it does once, however often it is sent.
        """
        for _ in range(REPLIES):
            found = self._asking.ask(
                Aside.LINE, [process_id], within_s=STACK_SECONDS, to=number, reply=dict(reply)
            )
            if found:
                return bool(found[process_id]["taken"])
        return False

    def stacks(
        self, process_ids: Sequence[int], *, native: bool = False
    ) -> dict[int, dict[str, Any]]:
        """The threads of processes, also of busy ones; only of those that answer soon.

        Returns:
          By process `threads`, or with `native` that, as `nbdist.engine.cell.native` answers it.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        if not self.link.agents.reaches_past_main_threads:
            raise SessionError(
                "These processes were not started by nbdist: nothing reaches them while they run a cell, and "
                "their stacks cannot be read."
            )
        limit = NATIVE_SECONDS if native else STACK_SECONDS
        return self._asking.ask(Aside.STACK, process_ids, within_s=limit, native=native)

    def failures(self, process_ids: Sequence[int], *, timeout_s: float) -> dict[int, str | None]:
        """What the last cell that has failed on each of these raised; None where none has.

        Raises:
          TimeoutError: One has not answered after `timeout_s` seconds.
        """
        asked = {p: self.send(p, "failure") for p in process_ids}
        return {p: request.get(timeout_s)[0]["error"] for p, request in asked.items()}

    def ask_idle(self, name: str, *, timeout_s: float, **arguments: Any) -> dict[str, Any] | None:
        """Asks the lowest idle process; None when none is idle or none answers in time."""
        for process_id in sorted(self.plan.hosts):
            if process_id in self.facts.lost or self.busy(process_id):
                continue
            request = self.send(process_id, name, **arguments)
            self.asked_alone = [*self.asked_alone, request]
            try:
                return request.get(timeout_s)[0]
            except (TimeoutError, GoneError):
                return None
        return None

    def computed_alone(self) -> bool:
        """Whether one process that was asked something has used devices of others, which took no part."""
        answered = [request for request in self.asked_alone if request.ready()]
        self.asked_alone = [r for r in self.asked_alone if r not in answered]
        for request in answered:
            with contextlib.suppress(NbdistError):  # one that came too late for whoever asked
                request.get()
        return any(request.computed for request in answered)

    def _files_brought(self) -> list[str]:
        """What the start has done with the user's files, a line each."""
        agents = self.link.agents
        if agents.files is None or not agents.others:
            return []
        folders = agents.files.working_folders(agents.others)
        return [*agents.files.first().text().splitlines(), *([folders] if folders else [])]

    def sync_files(self) -> Copied:
        """Makes the hosts' copies of the user's files the same again.

        Raises:
          SessionError: This session copies none.
          OptionError: They have become too much; nothing was sent.
          SyncError: A host could not take them.
        """
        files = self.link.agents.files
        if files is None:
            raise SessionError(
                "This session has no files to bring to its hosts: %dist_init --sync PATH names them."
            )
        done = files.sync(self.link.agents.others)
        if not done.any_news:
            return done
        old, busy = self._imported(files, done.changed)
        return replace(done, old=old, busy=busy)

    def _imported(
        self, files: Files, changed: Iterable[str]
    ) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
        """Process ids by the modules of changed files that they have imported, and those that did not say.

        Those that are asked look anew for modules that they have not found before.
        """
        asked = {}
        for process_id in self.choice.able():
            place = self.link.agents.place(process_id)
            folder = None if place is None else place.folder
            paths = [files.path(name, folder) for name in changed]
            asked[process_id] = self.send(process_id, "imported", paths=paths)
        found: dict[str, tuple[int, ...]] = {}
        deadline = time.monotonic() + IMPORTED_SECONDS
        for process_id, request in asked.items():
            request.wait(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(GoneError):  # one that ends meanwhile needs no new modules
                for name in request.get()[0]["modules"] if request.ready() else ():
                    found[name] = (*found.get(name, ()), process_id)
        return found, tuple(p for p, request in asked.items() if not request.ready())

    def look(self, in_cells: Collection[int]) -> None:
        """Has processes report what they hold now, so that what is shown next is what is there.

        Args:
          in_cells: Those that have not left their cells; their probes report by themselves.
        """
        there = [
            p
            for p in sorted(self.plan.hosts)
            if p not in in_cells and p not in self.facts.lost and p not in self.facts.stuck
        ]
        # That a cell has ended is known from its replies; the reports of that may still be on their way.
        deadline = time.monotonic() + IDLE_SECONDS
        while (
            any(self._state(p) not in ("idle", None) for p in there) and time.monotonic() < deadline
        ):
            time.sleep(POLL_SECONDS)
        idle = [p for p in there if self._state(p) == "idle"]
        self._have_told(idle, within_s=LOOK_SECONDS)

    def _state(self, process_id: int) -> str | None:
        activity = self.monitor.activity(process_id)
        return None if activity is None else activity.state

    def _have_told(self, process_ids: Sequence[int], *, within_s: float) -> None:
        """Has processes report what there is now, and waits until that is heard; no longer than `within_s`."""
        deadline = time.monotonic() + within_s
        asked = {p: self.send(p, "look", timeout_s=LOOK_SECONDS / 2) for p in process_ids}
        sequences = {}
        for process_id, request in asked.items():
            request.wait(max(0.0, deadline - time.monotonic()))
            if request.ready():
                # One that has ended while it was asked tells nothing more; its end is told elsewhere.
                with contextlib.suppress(GoneError):
                    sequences[process_id] = request.get()[0]["sequence"]
        self.monitor.wait_for(sequences, timeout_s=within_s)

    def wait_until_idle(self, *, timeout_s: float | None) -> None:
        """Waits until every process that can has finished what it was given.

        Raises:
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        asked = {p: self.send(p, "complete", code="", cursor=0) for p in self.choice.able()}
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for request in asked.values():
            while not request.ready():
                request.wait(0.05)
                if deadline is not None and time.monotonic() > deadline:
                    busy = [p for p, other in asked.items() if not other.ready()]
                    raise TimeoutError(f"{processes_text(busy)} still busy after {timeout_s:g} s.")

    def interrupt(self, process_ids: Sequence[int]) -> None:
        """Sends the framework's interrupt."""
        self.link.signal(framework_named(self.plan.framework).interrupt, process_ids)

    def out_of_step(self, cell: int, why: str) -> None:
        """The processes are not in step, and could not be brought there."""
        with self._lock:
            since = cell if self.facts.since is None else self.facts.since
            self.facts = replace(self.facts, since=since, why=why)
            self.monitor.know(self.facts.known(self._standings))

    def stuck(self, process_ids: Iterable[int]) -> None:
        """These did not come back from an interrupt."""
        stuck = {p: self._standing(p, "stuck", "did not come back") for p in process_ids}
        self.learn(stuck, self.last_cell)

    def _standing(self, process_id: int, outcome: Outcome, error: str) -> ProcessOutcome:
        hosts = self.plan.hosts
        return ProcessOutcome(
            process_id=process_id,
            host=hosts[process_id],
            one_host=len(set(hosts.values())) == 1,
            outcome=outcome,
            error=error,
        )

    def take_back(self) -> None:
        """Those that were stuck and have left their cell since are as the others."""
        back = {
            p
            for p in self.facts.stuck
            if (activity := self.monitor.activity(p)) is not None and activity.state == "idle"
        }
        with self._lock:
            self.facts = replace(self.facts, stuck=self.facts.stuck - back)
            self.monitor.know(self.facts.known(self._standings))

    def repairing(self, repairing: bool) -> None:
        """The processes are being brought in step again, or that has ended."""
        with self._lock:
            if self.state is not EngineState.ENDED:  # it may have been stopped in the middle
                way = EngineState.REPAIRING if repairing else EngineState.RUNNING
                self.state = self.state.to(way)
            self.facts = replace(self.facts, repairing=repairing)
            self.monitor.know(self.facts.known(self._standings))

    def told(self, standings: Mapping[int, ProcessOutcome]) -> None:
        """Hears where the processes stand in a cell that runs."""
        self._standings = standings
        self.monitor.know(self.facts.known(standings))

    def learn(self, standings: Mapping[int, ProcessOutcome], cell: int) -> Facts:
        """Learns from a cell that has ended, or from an end between cells."""
        with self._lock:
            self.last_cell = cell
            self._standings = {}
            self.facts = self.facts.after(standings, cell)
            left = ("finished", "raised", "interrupted")
            self.monitor.rest((p for p, s in standings.items() if s.outcome in left), cell)
            self.monitor.know(self.facts.known())
            return self.facts

    def recovered(self, done: str | None = None) -> None:
        """All processes are there again and in step; `done` says what it took, if anything."""
        with self._lock:
            self.facts = self.facts.recovered(done)
            self.monitor.know(self.facts.known())

    def _host_event(self, happening: Happening) -> None:
        """A process has ended, also between cells, or a host is silent; called on an agent's thread."""
        match happening:
            case Fault(text=text):
                self.monitor.fault(text)
            case HostsSilent(since=since):
                with self._lock:
                    self.facts = self.facts.unheard(since)
                    self.monitor.know(self.facts.known(self._standings))
            case Exited() | ProcessLost() | HostEnded():
                self._see_who_has_ended()

    def _see_who_has_ended(self) -> None:
        new = {p: end for p, end in self.link.exits.items() if p not in self.facts.lost}
        if new:
            gone = {p: self._standing(p, "gone", str(end)) for p, end in new.items()}
            self.learn(gone, self.last_cell)

    def leave(self) -> None:
        """Lets the processes go on without this kernel; publishes a last snapshot."""
        self.state = EngineState.ENDED
        self.link.agents.events.unsubscribe(self._host_event)
        self.monitor.know(Known(stopped=True))
        self.link.leave()
        self.monitor.stop()

    def stop(self) -> None:
        """Stops what was started, by handle; publishes a last snapshot."""
        self.state = EngineState.ENDED
        self.link.agents.events.unsubscribe(self._host_event)
        self.monitor.know(Known(stopped=True))
        self.link.stop()
        self.monitor.stop()
