"""The parent of one host's processes: `python -m nbdist.agent`.

It imports the framework and ipyparallel once and forks the controller and every engine from there, so
that N processes cost one import. Where forking is no option it starts each as a fresh interpreter.

Protocol, JSON lines. On standard input: first an `Assignment`, then further orders (`nbdist.contract.orders`); end
of input means the kernel is gone, and everything is stopped. A kept agent meets no end of input, and waits for the
next kernel. On standard output: events (`nbdist.contract.events`). Standard error is for people.

Nothing outlives this process, nor the kernel unless it is to be kept: end of input stops all, and so does a
silence of the kernel longer than the assignment allows; every child is told by the operating system to die with
its parent.

In a job that a scheduler started each task is such a parent, of one process. `--task VARIABLE` names the
environment variable that holds the task's number, which is the process id.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, assert_never

from nbdist.agent import coordinator
from nbdist.agent import stale_folders as sweep
from nbdist.agent.children import Children
from nbdist.agent.controller import run_controller
from nbdist.agent.handover import Collecting
from nbdist.agent.heartbeat import PERIOD_SECONDS, Pulse
from nbdist.agent.preload import preload
from nbdist.agent.reexec import begin_anew, too_late, unread
from nbdist.agent.sync import FOLDER, Copies, put_on_path
from nbdist.contract.asides import QUESTION, Aside
from nbdist.contract.events import (
    Collects,
    Coordinating,
    Fault,
    Host,
    OtherVersion,
    Preloaded,
    Reached,
    Refused,
    Stopped,
    Terminated,
)
from nbdist.contract.lines import Events
from nbdist.contract.orders import (
    CONTROLLER,
    SERVES_SECONDS,
    Alive,
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
    ListFiles,
    NewProcess,
    Order,
    Reach,
    Signal,
    Start,
    Stop,
    StopListening,
    WriteFile,
    from_line,
    version_of,
)
from nbdist.machine import checkup
from nbdist.machine.folder import (
    engine_connection,
    keep_ipython_in,
    make,
    read_whole,
    remove,
    write_private,
)
from nbdist.machine.log_tail import tail
from nbdist.machine.ports import free_ports, own_address
from nbdist.message_guard import MessageGuard
from nbdist.version import __version__

logger = logging.getLogger(__name__)


@dataclass
class Agent:
    """Obeys orders and watches children, all on the main thread."""

    children: Children
    events: Events
    orders: int
    task: int | None = None
    assignment: Assignment | None = None
    folder: str = ""
    own_folder: bool = False
    wanted: list[NewProcess] = field(default_factory=list)
    services: list[Coordinate] = field(default_factory=list)
    preloaded: bool = False
    pulse: Pulse | None = None
    listener: socket.socket | None = None
    stopped: bool = False
    kept: bool = False
    copies: Copies | None = None
    collect: Collect | None = None
    collecting: Collecting | None = None
    sweeper: int | None = None
    unread: bytes = b""

    def __post_init__(self) -> None:
        what = f"An order to the parent on {socket.gethostname()}"
        self._guard = MessageGuard(what, logger, lambda text: self.events.send(Fault(text=text)))

    def serve(self) -> None:
        """Runs until end of input, until the preload fails, or until the kernel is silent for too long."""
        wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wake)
        self._take(b"")
        while True:
            ready, _, _ = select.select([self.orders, wakeup], [], [], self._patience())
            if wakeup in ready:
                os.read(wakeup, 4096)
            if self.orders in ready and not self._read():
                return
            if (self.pulse and not self.pulse.beat()) or self._is_deserted():
                return
            self.children.reap()
            if self.assignment and not self.preloaded and not self._preload(self.assignment):
                return
            if self.assignment and self.services:
                self._start_services(self.assignment)
            if self.assignment and (self.collect or self.collecting):
                self._collect()
            if self.assignment and self.wanted and self._controller_is_ready(self.assignment):
                self._start_engines(self.assignment)

    def _patience(self) -> float | None:
        if self.wanted or self.collecting or (self.assignment and not self.preloaded):
            return 0.005
        if self.assignment and self.assignment.kept and not self.kept:
            return PERIOD_SECONDS
        return self.pulse.period_s if self.pulse else None

    def _is_deserted(self) -> bool:
        """Whether the kernel has ended before anybody could find this again; one elsewhere sees its silence."""
        asked = self.assignment
        if asked is None or not asked.kept or self.kept or asked.kernel is None:
            return False
        deserted = os.getppid() != asked.kernel
        self.own_folder = self.own_folder or deserted  # nobody else will remove it
        return deserted

    def _read(self) -> bool:
        data = os.read(self.orders, 1 << 16)
        if not data:
            # Nobody reads in the session's folder any more, and it holds the session's key.
            self.own_folder = True
        self._take(data)
        return bool(data) and not self.stopped

    def _take(self, data: bytes) -> None:
        self.unread += data
        if self.pulse:
            self.pulse.heard()
        if b"\n" not in self.unread:
            return
        *lines, rest = self.unread.split(b"\n")
        for number, line in enumerate(lines):
            if self.assignment is None:
                self._refuse_other_version(line)
            # One that cannot be read must not end what runs here; without an assignment nothing does yet.
            with self._guard if self.assignment else contextlib.nullcontext():
                order = from_line(line)
                if isinstance(order, Assignment) and too_late(order.environment):
                    unread = b"\n".join([*lines[number:], rest])
                    begin_anew(order.environment, orders=unread, output=self.events.descriptor)
                self._obey(order)
        self.unread = rest

    def _refuse_other_version(self, line: bytes) -> None:
        """Ends this agent where a kernel of another version has started it: it may not read what it is sent."""
        if version_of(line) != __version__:
            self.events.send(OtherVersion(host=socket.gethostname(), nbdist=__version__))
            raise SystemExit(1)

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
                self.events.send(Reached(answers=tuple(checkup.connect(targets))))
            case StopListening():
                self._stop_listening()
            case Ask(what=what, process_ids=process_ids, question=question):
                if question is not None:
                    write_private(Path(self.folder) / QUESTION, dict(question))
                self.children.ask(process_ids, Aside(what))
            case Coordinate(process_id=process_id):
                if self.task in (None, process_id):
                    self.services.append(order)
            case EndCoordination(number=number):
                self.children.end(number)
            case Keep():
                self.kept = True
                if self.pulse:
                    self.pulse.go_on_without()
            case Stop():
                self.stopped = True
                self.events.send(Stopped())
            case Alive():
                pass  # that it has come is all it says
            case ListFiles() | AskForFiles() | WriteFile() | DropFile() | CommitFiles():
                self.copies = self.copies or Copies(self.folder, self.events)
                self.copies.obey(order)
            case _:
                assert_never(order)

    def _begin(self, assignment: Assignment) -> None:
        self.assignment = assignment
        os.environ.update(assignment.environment)
        self.own_folder = assignment.folder is None
        try:
            self.folder = assignment.folder or make()
            keep_ipython_in(self.folder)
            if self.own_folder:
                self.sweeper = sweep.sweep_after(self.folder)
            if assignment.cwd is not None:
                self._enter(assignment.cwd, assignment.cwd_copy)
        except OSError as error:
            self._refuse(error.filename, error)
            raise SystemExit(1) from None
        if assignment.silence_s is not None:
            self.pulse = Pulse(self.events, self.orders, silence_s=assignment.silence_s)
        self._say_who()
        self._start_controller(assignment)

    def _refuse(self, folder: str | None, error: OSError) -> None:
        host = socket.gethostname()
        self.events.send(Refused(host=host, folder=folder, error=str(error)))

    def _enter(self, cwd: str, copy: str | None) -> None:
        """Goes to the working folder, or to its copy where it has none of its own here."""
        before = os.getcwd()  # noqa: PTH109 - as `python -m` has it
        try:
            os.chdir(cwd)
        except OSError:
            if copy is None:
                raise
            made = Path(self.folder, FOLDER, copy)
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.chdir(made)
        # On this machine the kernel's folder is there, where ssh puts the home folder.
        if sys.path[:1] == [before]:
            sys.path[0] = str(Path.cwd())

    def _say_who(self) -> None:
        """Tells what the kernel must know before it can give more orders."""
        assignment = self.assignment
        assert assignment is not None
        address = _address(assignment.controller_address)
        checks = None
        if assignment.checks is not None:
            checks = checkup.checkup(dict(assignment.checks))
            if address:
                self.listener = checkup.listen(address)
        self.events.send(
            Host(
                host=socket.gethostname(),
                pid=os.getpid(),
                nbdist=__version__,
                folder=self.folder,
                cwd=str(Path.cwd()),
                address=address,
                listening=self.listener.getsockname()[1] if self.listener else None,
                ports=tuple(free_ports(assignment.ports)),
                checks=checks,
            )
        )

    def _collect(self) -> None:
        """Asks for the connection file, and takes it when it is here."""
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
        try:
            write_private(path, dict(connection))
        except OSError as error:
            self._refuse(self.folder, error)
            raise SystemExit(1) from None

    def _controller_is_ready(self, assignment: Assignment) -> bool:
        """Whether the connection file for engines is here, all of it."""
        return read_whole(engine_connection(self.folder, assignment.cluster_id)) is not None

    def _start_controller(self, assignment: Assignment) -> None:
        arguments = assignment.controller_arguments
        if arguments is not None:
            self.children.start(
                CONTROLLER,
                Path(self.folder) / "controller.log",
                lambda: run_controller(list(arguments)),
                # It has processes of its own, which it ends on this signal.
                death_signal=signal.SIGTERM,
            )

    def _preload(self, assignment: Assignment) -> bool:
        """Imports what all engines need; tells why when it cannot."""
        started = time.monotonic()
        engine = ["ipyparallel.engine.app", "ipyparallel.engine.nanny"]
        modules = [*engine, *assignment.preload] if assignment.fork and assignment.preload else []
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

    def _start_engines(self, assignment: Assignment) -> None:
        for process in self.wanted:
            log = Path(self.folder) / f"process-{process.process_id}.log"
            asked = os.pipe()
            os.set_inheritable(asked[0], True)
            own = {"NBDIST_LOG": str(log), "NBDIST_ASKED": str(asked[0])}
            environment = {**process.environment, **own}
            self.children.start(
                process.process_id,
                log,
                lambda environment=environment: self._become_engine(assignment, environment),  # type: ignore[misc]
                death_signal=signal.SIGKILL,
                asked=asked,
            )
        self.wanted = []

    def _start_services(self, assignment: Assignment) -> None:
        """Starts coordination services, each ready when its event is written."""
        for service in self.services:
            address = f"{service.host}:{service.port or free_ports(1)[0]}"
            ready, serving = os.pipe()
            os.set_inheritable(serving, True)
            arguments = (address, service.processes, serving)
            self.children.start(
                service.number,
                Path(self.folder) / "coordinator.log",
                lambda arguments=arguments: self._become_service(assignment, *arguments),  # type: ignore[misc]
                death_signal=signal.SIGKILL,
            )
            os.close(serving)
            listens = self._listens(ready)
            os.close(ready)
            self.events.send(
                Coordinating(
                    number=service.number,
                    address=address if listens else None,
                    last_lines=() if listens else tail(Path(self.folder) / "coordinator.log"),
                )
            )
        self.services = []

    def _listens(self, ready: int) -> bool:
        """Waits until a service listens, and says meanwhile that this parent is there."""
        until = time.monotonic() + SERVES_SECONDS
        while (left := until - time.monotonic()) > 0:
            if select.select([ready], [], [], min(left, PERIOD_SECONDS))[0]:
                return bool(os.read(ready, 1))
            if self.pulse:
                self.pulse.beat()
        return False

    def _become_service(
        self, assignment: Assignment, address: str, processes: int, ready: int
    ) -> None:
        """Runs in the child."""
        self._stop_listening()
        if assignment.fork:
            coordinator.serve(address, processes, ready)
        command = [sys.executable, "-m", "nbdist.agent.coordinator"]
        os.execv(sys.executable, [*command, address, str(processes), str(ready)])

    def _become_engine(self, assignment: Assignment, environment: Mapping[str, str]) -> None:
        """Runs in the child."""
        self._stop_listening()
        put_on_path([str(Path(self.folder, FOLDER, path)) for path in assignment.paths])
        run = _fork_engine if assignment.fork else _spawn_engine
        run(self.folder, assignment.cluster_id, environment)

    def _stop_listening(self) -> None:
        if self.listener:
            self.listener.close()
            self.listener = None

    def stop(self) -> None:
        """Ends all children; a folder that nobody else would remove is removed."""
        self.children.stop()
        if self.own_folder and self.folder:
            remove(self.folder)
        sweep.end(self.sweeper)


def _address(controller: str | None) -> str | None:
    """Where others reach this host: on the way to the controller, or where ssh came in if it leads there."""
    if controller is None:
        return None
    if not controller.startswith("127."):
        return own_address(controller)
    # `CLIENT PORT SERVER PORT`, of ssh(1); where that is no IPv4, on the way to anywhere outside.
    came_in = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    return (own_address(came_in[0]) if came_in else None) or own_address("192.0.2.1")


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be set for the wake-up descriptor to be written."""


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


class _Stopped(SystemExit):
    """Somebody wants this session to end, and that may not be its kernel."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(0)


def _fork_engine(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    from nbdist.engine.kernel.process import run_engine

    os.environ.update(environment)
    run_engine(folder, cluster_id, fork_nanny=True)


def _spawn_engine(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "nbdist.engine.kernel.process", folder, cluster_id]
    os.execve(sys.executable, command, {**os.environ, **environment})


def _task(arguments: list[str]) -> int | None:
    """The number of this task; None for a parent that is no task."""
    if arguments[:1] != ["--task"]:
        return None
    variable = arguments[1]
    if not os.environ.get(variable, "").isdigit():
        raise SystemExit(f"nbdist: {variable} is not set by whoever started this task.")
    return int(os.environ[variable])


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    # A connection that is cut takes standard output away; what is to be done is told by end of input.
    signal.signal(signal.SIGHUP, _leave)
    task = _task(sys.argv[1:])
    events = Events(os.fdopen(os.dup(1), "w"), task)
    # What libraries print while they are imported must not be taken for an event.
    os.dup2(2, 1)
    host = Agent(children=Children(events), events=events, orders=0, task=task)
    host.unread = unread(sys.argv)
    try:
        host.serve()
    except _Stopped:
        if task is None:
            events.send(Stopped())
            raise
        # The scheduler ends a task so, and says itself why.
        events.send(Terminated())
        raise SystemExit(128 + signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        host.stop()
