"""The program that runs once on each host: it obeys the kernel's orders and watches the processes it has started.

The agent imports the framework and ipyparallel once and forks the controller and every engine from there, so
that N processes cost one import. Where forking is no option it starts each as a fresh interpreter.

Protocol, JSON lines. On standard input: first an `Assignment`, then further orders (`nbdist.contract.orders`); end
of input means the kernel is gone, and everything is stopped. A kept agent holds its own input open, so it sees no
end of input and waits for the next kernel. On standard output: events (`nbdist.contract.events`). Standard error
is for people.

Nothing outlives the agent, nor the kernel unless the session is to be kept: end of input stops all, and so does a
silence of the kernel longer than the assignment allows; the operating system ends every child with its parent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, assert_never

from nbdist.agent.coordination import Relays, Services
from nbdist.agent.kernel_link import (
    PERIOD_SECONDS,
    Collecting,
    Introduction,
    OrderReader,
    Pulse,
    enter,
)
from nbdist.agent.processes import Children, preload, start_engines
from nbdist.agent.programs import run_controller
from nbdist.agent.sync import FileCopies
from nbdist.contract.asides import QUESTION
from nbdist.contract.checkup import Connection
from nbdist.contract.events import (
    Collects,
    Events,
    Preloaded,
    Reached,
    Refused,
    Relaying,
    Reserved,
    Stopped,
)
from nbdist.contract.orders import (
    CONTROLLER,
    Ask,
    AskForFiles,
    Assignment,
    Collect,
    CommitFiles,
    Connect,
    Coordinate,
    DropFile,
    EndCoordination,
    Keep,
    KernelAlive,
    ListFiles,
    NewProcess,
    Order,
    Reach,
    Relay,
    ReservePorts,
    RestartController,
    Signal,
    Start,
    Stop,
    StopListening,
    WriteFile,
)
from nbdist.contract.wire import answer_type, decode, encode
from nbdist.machine import checkup
from nbdist.machine import folder as sweep
from nbdist.machine.folder import (
    engine_connection,
    keep_ipython_in,
    make,
    read_whole,
    remove,
    write_private,
)
from nbdist.machine.ports import ReservedPorts

ENGINE = (
    *("ipyparallel.engine.app", "ipyparallel.engine.nanny", "ipykernel.debugger"),
    *(f"nbdist.engine.kernel.{name}" for name in ("resident", "calls", "moving_calls")),
)
"""Modules that every engine needs, whatever framework it uses."""


class Agent:
    """An agent that obeys orders and watches children, all on the main thread.

    Args:
      children: The processes that it starts.
      events: Gets the agent's events.
      orders: The descriptor of its orders.
      task: Its number in a job that a scheduler has started; None for an agent that is no task.
      unread: The orders that were read before this program began anew.
    """

    def __init__(
        self,
        children: Children,
        events: Events,
        *,
        orders: int,
        task: int | None = None,
        unread: bytes = b"",
    ) -> None:
        self.children = children
        self.events = events
        self.task = task
        self.assignment: Assignment | None = None
        self.folder = ""
        self.own_folder = False
        self.wanted: list[NewProcess] = []
        self.preloaded = False
        self.pulse: Pulse | None = None
        self.stopped = False
        self.kept = False
        self.copies: FileCopies | None = None
        self.collect: Collect | None = None
        self.collecting: Collecting | None = None
        self.sweeper: int | None = None
        self._started_by = os.getppid()
        self.orders = OrderReader(orders, events, self._obey, unread=unread)
        self.reserved = ReservedPorts()
        self.introduction = Introduction(events, self.reserved)
        self.relays = Relays()
        self.services = Services(children, events, beat=self._beat, let_go=self._let_go)

    def serve(self) -> None:
        """Run until end of input, until the preload fails, or until the kernel is silent for too long."""
        wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wake)
        self.orders.take(b"")
        while True:
            passed_on = self.relays.fileno()
            every = [self.orders.descriptor, wakeup, passed_on]
            ready, _, _ = select.select(every, [], [], self._patience())
            if wakeup in ready:
                os.read(wakeup, 4096)
            if passed_on in ready:
                self.relays.pump()
            if self.orders.descriptor in ready and not self._read():
                return
            if not self._beat() or self._is_deserted():
                return
            self.children.reap()
            if self.assignment and not self.preloaded and not self._preload(self.assignment):
                return
            if self.assignment and self.services.wanted:
                self.services.start(self.folder, fork=self.assignment.fork)
            if self.assignment and (self.collect or self.collecting):
                self._collect()
            if self.assignment and self.wanted and self._controller_is_ready(self.assignment):
                wanted, self.wanted = self.wanted, []
                start_engines(
                    self.children,
                    wanted,
                    self.assignment,
                    folder=self.folder,
                    let_go=self._let_go,
                )

    def _patience(self) -> float | None:
        if self.wanted or self.collecting or (self.assignment and not self.preloaded):
            return 0.005
        if self._ends_with() is not None:
            return PERIOD_SECONDS
        return self.pulse.period_s if self.pulse else None

    def _ends_with(self) -> int | None:
        """Return the id of the process that this agent does not outlive; None if there is no such process."""
        if self.kept:
            return None
        # Before the assignment nothing runs here, and a kernel that was killed may have sent only half of it.
        return self.assignment.kernel if self.assignment else self._started_by

    def _is_deserted(self) -> bool:
        """Return whether the kernel has ended before another kernel could find this agent.

        End of input does not always show this: processes that the kernel has forked may hold its end of the pipe
        open, and a kept agent holds that end itself. The end of a kernel on another machine shows as its silence.
        """
        parent = self._ends_with()
        deserted = parent is not None and os.getppid() != parent
        self.own_folder = self.own_folder or deserted  # no other process will remove it
        return deserted

    def _read(self) -> bool:
        if self.pulse:
            self.pulse.received()
        more = self.orders.read()
        if not more:
            # No process needs the session's folder any more, and the folder holds the session's key.
            self.own_folder = True
        return more and not self.stopped

    def _beat(self) -> bool:
        """Send a heartbeat if it is time; return whether the kernel has sent something lately."""
        return self.pulse is None or self.pulse.beat()

    def _obey(self, order: Order) -> None:
        match order:
            case Assignment():
                self._begin(order)
            case Start(processes=processes):
                # All tasks of a job are sent the same orders.
                self.wanted += [p for p in processes if self.task in (None, p.process_id)]
            case Signal(number=number, process_ids=process_ids):
                self.children.signal(number, process_ids)
            case Connect(connection=connection):
                self._connection(connection)
            case Collect():
                self.collect = order
            case Reach(targets=targets):
                answers = (decode(Connection, one) for one in checkup.connect(targets))
                self.events.send(Reached(answers=tuple(answers)))
            case StopListening():
                self.introduction.stop_listening()
            case Ask(process_ids=process_ids, question=question):
                if answer_type(type(question.aside)) is not None:
                    write_private(Path(self.folder) / QUESTION, encode(question))
                self.children.ask(process_ids, question.aside.LETTER)
            case Coordinate(process_id=process_id):
                if self.task in (None, process_id):
                    self.services.wanted.append(order)
            case Relay():
                self._relay(order)
            case ReservePorts(number=number, count=count):
                # Ports of the last reservation that are in use stay taken without it; the others are not needed
                # any more.
                self.reserved.close()
                ports = tuple(self.reserved.reserve(count))
                self.events.send(Reserved(number=number, ports=ports))
            case EndCoordination(number=number):
                self.children.end(number)
            case RestartController():
                if self.assignment and not self.children.has(CONTROLLER):
                    self._start_controller(self.assignment, again=True)
            case Keep():
                self.kept = True
                if self.pulse:
                    self.pulse.go_on_without()
            case Stop():
                self.stopped = True
                self.events.send(Stopped())
            case KernelAlive():
                pass  # `_read` has noted it for the pulse
            case ListFiles() | AskForFiles() | WriteFile() | DropFile() | CommitFiles():
                self.copies = self.copies or FileCopies(self.folder, self.events)
                self.copies.obey(order)
            case _:
                assert_never(order)

    def _begin(self, assignment: Assignment) -> None:
        self.assignment = assignment
        os.environ.update(assignment.environment)
        self.own_folder = assignment.folder is None
        with self._refusing():
            self.folder = assignment.folder or make()
            keep_ipython_in(self.folder)
            if self.own_folder:
                self.sweeper = sweep.sweep_after(self.folder)
        if assignment.cwd is not None:
            with self._refusing(working=True):
                enter(assignment.cwd, assignment.cwd_copy, self.folder)
        if assignment.silence_s is not None:
            self.pulse = Pulse(self.events, self.orders.descriptor, silence_s=assignment.silence_s)
        self.introduction.say(assignment, self.folder)
        self._start_controller(assignment)

    def _let_go(self) -> None:
        """Close, in a child, what only this agent uses."""
        self.introduction.stop_listening()
        self.reserved.close()

    def _relay(self, order: Relay) -> None:
        try:
            relaying = Relaying(number=order.number, port=self.relays.open(order.address))
        except OSError as error:
            relaying = Relaying(number=order.number, port=None, error=str(error))
        self.events.send(relaying)

    @contextlib.contextmanager
    def _refusing(self, folder: str | None = None, *, working: bool = False) -> Iterator[None]:
        """Report an `OSError` of the block, with `folder` or else the error's file name, and end the agent."""
        try:
            yield
        except OSError as error:
            where, host = folder or error.filename, socket.gethostname()
            self.events.send(Refused(host=host, folder=where, error=str(error), working=working))
            raise SystemExit(1) from None

    def _collect(self) -> None:
        """Ask for the connection file, and take it when it is here."""
        if self.collect is not None:
            asked, self.collect = self.collect, None
            self.collecting = Collecting(asked.address, asked.server_key)
            self.events.send(Collects(public_key=self.collecting.public_key))
        elif self.collecting is not None:
            connection = self.collecting.poll()
            if connection is not None:
                self.collecting.close()
                self.collecting = None
                self._connection(connection)

    def _connection(self, connection: Mapping[str, Any]) -> None:
        assert self.assignment is not None
        path = engine_connection(self.folder, self.assignment.cluster_id)
        with self._refusing(self.folder):
            write_private(path, dict(connection))

    def _controller_is_ready(self, assignment: Assignment) -> bool:
        """Return whether the connection file for engines is here completely."""
        return read_whole(engine_connection(self.folder, assignment.cluster_id)) is not None

    def _start_controller(self, assignment: Assignment, *, again: bool = False) -> None:
        arguments = assignment.controller_arguments
        if arguments is None:
            return

        def become() -> None:
            self._let_go()
            run_controller(
                arguments, folder=self.folder, cluster_id=assignment.cluster_id, again=again
            )

        log = Path(self.folder) / "controller.log"
        # The controller has processes of its own, which it ends on this signal.
        self.children.start(CONTROLLER, log, become, death_signal=signal.SIGTERM)

    def _preload(self, assignment: Assignment) -> bool:
        """Import what all engines need; if that fails, report why and return False."""
        started = time.monotonic()
        modules = [*ENGINE, *assignment.preload] if assignment.fork and assignment.preload else []
        if self.pulse:
            self.pulse.go_on_by_itself()
        failure = preload(modules)
        if self.pulse:
            self.pulse.stop()
        if failure is not None:
            self.events.send(failure)
            return False
        self.events.send(Preloaded(seconds=time.monotonic() - started))
        self.preloaded = True
        return True

    def stop(self) -> None:
        """End all children; remove the folder if this agent owns it."""
        self.children.stop()
        self.relays.close()
        self.reserved.close()
        if self.own_folder and self.folder:
            remove(self.folder)
        sweep.end(self.sweeper)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: without a handler the wake-up descriptor is not written."""
