"""The processes of a session while they live: the connection to them, their beginning and their end."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from nbdist.contract.asides import Repeat, Rescue
from nbdist.contract.calls import Call
from nbdist.contract.calls.engine import Initialized
from nbdist.contract.calls.stepping import Meet, Prove
from nbdist.contract.events import Coordinating, Exited, Fault
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import GoneError, Notice, SessionError
from nbdist.interrupts import put_off, taken_by
from nbdist.launch.model import framework
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import (
    Happening,
    HostEnded,
    HostsSilent,
    ProcessExit,
    ProcessLost,
    StartProgress,
)
from nbdist.launch.start import connect as start
from nbdist.launch.start import initialize as join
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.pending import Pending, ask
from nbdist.monitor.disagreements import After
from nbdist.monitor.monitor import Monitor
from nbdist.monitor.states import ExpectedProcess
from nbdist.notation import where_text
from nbdist.session.cells.doubt import MadeIn, nowhere
from nbdist.session.cells.facts import Health, LifeState, ProcessFacts
from nbdist.session.cells.history import CellRecords
from nbdist.session.cells.late import EarlierCells
from nbdist.session.cells.targets import TargetSelector
from nbdist.session.reports import DEVICES_SECONDS, Asides, Reports
from nbdist.session.turn import Turn
from nbdist.session.values.copies import Copies
from nbdist.spelling import command
from nbdist.view.widgets import Widgets

A = TypeVar("A")
T = TypeVar("T")


class EngineGroup:
    """Connected processes under watch, until `stop` ends them or `leave` leaves them to themselves.

    Created by `begin` or `again`.

    Attributes:
      cluster: The connection to the processes.
      plan: Which process runs where.
      monitor: Receives their reports.
      health: The facts about them beyond their reports.
      reports: Their reports.
      asides: Questions that they answer in the middle of a cell.
      choice: Selects processes by target words.
      widgets: Their widgets.
      earlier: Ended cells, whose displays later cells may change.
      seconds_to_start: How long the start took.
      in_step_at: The program, as generation and serial, after which the last comparison found them in step.
      settling: A lock, held while they are brought in step, or values move.
      turn: Held while something that may compute is sent, until that has ended.
      reported: The reported names of processes that are being replaced, until all are in step again.
      copies: The copies of arrays that they keep for each other.
      on_replaced: Called when processes have replaced others.
      made_in: Finds the cells that last assigned given names.
      notice: The last failure or repair, for a person who asks why.
      lost_texts: A sentence for each lost array that no cell has assigned since, by path.
      hurry: Set by an interrupt while they are brought in step, to end every wait that is not necessary.

    Args:
      cluster: The connection to the processes.
      publish: Called with each new snapshot, on the monitor's thread.
    """

    def __init__(self, cluster: Cluster, *, publish: Callable[[Snapshot], None]) -> None:
        self.cluster = cluster
        plan = self.plan = cluster.plan
        self.seconds_to_start = 0.0
        self.in_step_at: tuple[int, int] | None = None
        self.reported: dict[int, After] = {}
        self.copies = Copies()
        self.settling = threading.RLock()
        self.turn = Turn(Path(cluster.turn_file or Path(cluster.folder) / "turn"))
        self.turn.known = lambda: (self.in_step_at, not self.facts.out_of_step)
        self.hurry = threading.Event()
        self._lost_controller: ProcessExit | None = None
        # The monitor listens early, since a subscription takes a moment.
        self.monitor = Monitor(
            session=cluster.session,
            planned=tuple(
                ExpectedProcess(
                    process_id=p.process_id,
                    host=p.host,
                    role=p.role,
                    task=framework.role_name(plan, p),
                )
                for p in plan.processes
            ),
            connection=cluster.connection,
            publish=publish,
        )
        within_reach = cluster.agents.reaches_past_main_threads
        self.health = Health(plan, self.monitor, within_reach=within_reach)
        self.reports = Reports(self.monitor, self.health, plan.hosts, self.send)
        self.asides = Asides(cluster.agents, plan, self.reports.busy)
        self.widgets = Widgets()
        self.earlier = EarlierCells()
        self.on_replaced: Callable[[], object] = lambda: None
        self.made_in: MadeIn = nowhere
        self.notice: Notice | None = None
        self.lost_texts: dict[str, str] = {}
        self.monitor.on_answer = self.asides.put
        self.monitor.start()
        self.choice = TargetSelector(
            plan.hosts,
            named=framework.ids_by_role(plan),
            workers=self.facts.workers,
            facts=lambda: self.facts,
            activity=self.monitor.activity,
        )

    @classmethod
    def begin(
        cls, cluster: Cluster, *, progress: StartProgress, publish: Callable[[Snapshot], None]
    ) -> EngineGroup:
        """Start processes whose agents have been started.

        Raises:
          LaunchError: They could not be started; everything is stopped.
        """
        start.start(cluster, progress=progress)
        engines = cls(cluster, publish=publish)
        try:
            cluster.answers = join.join(cluster, progress=progress)
            engines.meet({p: a.ports for p, a in cluster.answers.items() if a.ports is not None})
            engines._connect_all()
            engines.reports.first(devices=engines._has_devices())
        except BaseException:
            cluster.stop()
            engines.monitor.stop()
            raise
        engines._watch()
        return engines

    @classmethod
    def again(
        cls,
        cluster: Cluster,
        *,
        progress: StartProgress,
        publish: Callable[[Snapshot], None],
        known: CellRecords,
    ) -> EngineGroup:
        """Watch processes that already run; `known` is what another kernel has recorded about them.

        Raises:
          LaunchError: Their framework could not be initialized; they go on.
        """
        engines = cls(cluster, publish=publish)
        engines.health.note(
            ProcessFacts.regained, since=known.since, stuck=known.stuck, unsure=known.unsure
        )
        try:
            cluster.answers = cluster.answers or join.join(cluster, progress=progress)
            engines.health.note(
                ProcessFacts.able_to_prove, [a.ports is not None for a in cluster.answers.values()]
            )
            engines.reports.again(
                [p for p in engines.plan.hosts if p not in cluster.exits],
                partial(cluster.agents.ask, Repeat()),
                devices=engines._has_devices(),
            )
        except BaseException:
            engines.leave()
            raise
        engines._watch()
        # Processes may have ended while no kernel was attached.
        engines.health.note(ProcessFacts.ended, cluster.exits)
        return engines

    @property
    def facts(self) -> ProcessFacts:
        """The facts about the processes, as of now."""
        return self.health.facts

    @property
    def proves(self) -> bool:
        """Whether they can prove that they are in step."""
        return self.facts.proves

    @property
    def alive(self) -> bool:
        """Whether they were neither stopped nor left."""
        return self.facts.state is not LifeState.ENDED

    def living(self) -> Self:
        """Return this group.

        Raises:
          SessionError: Its processes were stopped, or this kernel has left them.
        """
        if not self.alive:
            raise SessionError(f"The session has ended. {command('start')} starts one.")
        return self

    def _has_devices(self) -> bool:
        return (
            framework_named(self.plan.framework).summary(self.plan, self.cluster.answers)
            is not None
        )

    def _connect_all(self) -> None:
        """Run a first collective on all processes: the one that opens the connections cannot be interrupted."""
        if self.proves:
            number = self.next_number()
            for process_id in sorted(self.facts.workers):
                self.send(
                    process_id, Prove(number=number, timeout_s=DEVICES_SECONDS, compared=True)
                )

    def meet(self, ports: Mapping[int, Sequence[int]]) -> None:
        """Tell each process the ports on which the others accept the connections of collectives."""
        self.health.note(ProcessFacts.able_to_prove, [p in ports for p in self.facts.workers])
        if not self.proves:
            return
        asked = [
            self.send(
                p, Meet(ports=tuple(port for q, its in ports.items() if q != p for port in its))
            )
            for p in ports
        ]
        for request in asked:
            request.get(DEVICES_SECONDS)

    def replaced(self, answers: Mapping[int, Initialized]) -> None:
        """Note processes that have replaced others, with their answers by process id."""
        self.cluster.answers = {**self.cluster.answers, **answers}
        self.reported.clear()
        self.on_replaced()

    def found_started(self, answers: Mapping[int, Initialized], known: CellRecords) -> None:
        """Note processes with which another kernel has replaced others; `known` is that kernel's record."""
        self.cluster.answers = {**self.cluster.answers, **answers}
        self.health.note(ProcessFacts.reachable, self.cluster.exits)
        self.health.note(
            ProcessFacts.regained, since=known.since, stuck=known.stuck, unsure=known.unsure
        )

    def next_number(self) -> int:
        """Return a number for a proof or a sending that is higher than all earlier ones, in all kernels."""
        return self.turn.next_number()

    def _watch(self) -> None:
        self.health.note(ProcessFacts.to, LifeState.RUNNING)
        self.cluster.agents.events.subscribe(self._host_event)
        for text in self.cluster.agents.faults:
            self.monitor.fault(text)
        self.seconds_to_start = time.monotonic() - self.cluster.began

    def host_text(self, host: str) -> str:
        """Return `host h1`, or `this machine` if all processes are placed there."""
        return "this machine" if self.plan.placement.on_this_machine else f"host {host}"

    def send(self, process_id: int, call: Call[A], *buffers: bytes) -> Pending[A]:
        """Send a request to one process; see `nbdist.launch.start.pending.ask`.

        Raises:
          GoneError: The session has ended.
        """
        if not self.alive:
            raise GoneError(f"{self.where(process_id)} is of a session that has ended.")
        engine = self.cluster.engines[process_id]
        return ask(self.cluster.client, engine, call, *buffers, where=self.where(process_id))

    def where(self, process_id: int) -> str:
        """Return `process 1 (host h1)`, without the host if there is only one."""
        return where_text([process_id], self.plan.hosts)

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it lives."""
        return self.facts.lost.get(process_id)

    def interrupt(self, process_ids: Sequence[int]) -> None:
        """Send the framework's interrupt."""
        self.cluster.agents.signal(framework_named(self.plan.framework).interrupt, process_ids)

    def _host_event(self, happening: Happening) -> None:
        """Handle the end of a process, even between cells, or a silent host; called on an agent's thread."""
        match happening:
            case Fault(text=text):
                self.monitor.fault(text)
            case HostsSilent(since=since):
                self.health.note(ProcessFacts.silent_since, since)
            case Exited() | ProcessLost() | HostEnded():
                self.health.note(ProcessFacts.ended, self.cluster.exits)
                agents = self.cluster.agents
                if agents.controller_end is not None and agents.all and not self.lost_controller:
                    self.cut_off()
                if (service := self.lost_service) is not None:
                    why = f"JAX's coordination service {service}"
                    self.health.note(ProcessFacts.found_out_of_step, self.facts.last_cell, why)

    @property
    def lost_controller(self) -> ProcessExit | None:
        """The end of ipyparallel's controller, until this kernel is connected to another in its place."""
        end = self.cluster.agents.controller_end
        if end is not None and end.of_the_controller and self.cluster.agents.all:
            self._lost_controller = end
        return None if self.facts.cut_off else self._lost_controller

    @property
    def lost_service(self) -> ProcessExit | None:
        """The end of JAX's coordination service, after which all must join a new one; None while it serves."""
        first = self.plan.processes[0].process_id
        agents = self.cluster.agents
        agent = agents.of(first) if agents.all and self.cluster.rendezvous.served else None
        services = agent.numbers(Coordinating) if agent is not None else set()
        # Later services have lower numbers.
        return agent.exits.get(min(services)) if agent is not None and services else None

    def reconnected(self) -> None:
        """Note that this kernel is connected to the controller that replaced another."""
        self._lost_controller = None
        self.health.note(ProcessFacts.reachable, self.cluster.exits)

    def cut_off(self) -> None:
        """Have processes save what they hold: all other requests need the controller, which is gone for good."""
        if self.facts.cut_off:
            return
        self.health.note(ProcessFacts.without_controller)
        agents = self.cluster.agents
        agents.ask(Rescue(), [p for p in self.plan.hosts if agents.of(p).poll() is None])

    def noticed(self, notice: Notice, said: Sequence[str] = ()) -> Notice:
        """Keep a notice for a person who asks why, with what was said meanwhile as details; return it."""
        self.notice = replace(notice, details=(*said, *notice.details))
        self.health.note(ProcessFacts.told, self.notice)
        return self.notice

    def exclusive(self, work: Callable[[], T]) -> T:
        """Do work that an interrupt of the notebook must not end halfway, on a thread of its own.

        The work ends by itself, since everything it waits for has a time limit. An interrupt during the work only
        sets `hurry`.
        """
        results: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                with self.settling:
                    results.append(work())
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                errors.append(error)

        context = contextvars.copy_context()  # error texts use the syntax of the person's interface
        thread = threading.Thread(
            target=context.run, args=(run,), name="nbdist-settle", daemon=True
        )
        with put_off():
            self.hurry.clear()
        with taken_by(self.hurry.set):
            thread.start()
            thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def leave(self) -> None:
        """Leave the processes running without this kernel; publish a last snapshot."""
        self._end(self.cluster.leave)

    def stop(self) -> None:
        """Stop what was started, by handle; publish a last snapshot."""
        self._end(self.cluster.stop)

    def _end(self, end: Callable[[], None]) -> None:
        self.health.note(ProcessFacts.to, LifeState.ENDED)
        self.cluster.agents.events.unsubscribe(self._host_event)
        end()
        self.turn.close()
        self.monitor.stop()
