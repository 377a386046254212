"""The parent of one host's processes: `python -m nbdist.engine.host`.

It imports the framework and ipyparallel once and forks the controller and every engine from there, so
that N processes cost one import. Where forking is no option it starts each as a fresh interpreter.

Protocol, JSON lines. On standard input: first an `Assignment`, then orders (`{"start": […]}`,
`{"signal": 2, "process_ids": […]}`); end of input means the kernel is gone, and everything is stopped.
On standard output: events (`{"event": "exited", "process_id": 2, "code": -9, "oom": false}`).
Standard error is for people.

Nothing outlives the kernel or this process: end of input stops all, and every child is told by the
operating system to die with its parent.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from nbdist.engine.children import Children

CONTROLLER = -1
"""Stands for the controller where a process id is expected."""


@dataclass(frozen=True)
class Assignment:
    """What this host is for.

    `folder` is private to the session and holds connection files and logs; `preload` names the modules
    every engine will need; `controller_arguments` is None where the controller runs elsewhere.
    """

    folder: str
    cluster_id: str
    preload: list[str]
    fork: bool
    controller_arguments: list[str] | None = None

    def controller_is_ready(self) -> bool:
        """Whether the controller has written the connection file for engines, all of it."""
        path = Path(self.folder) / "security" / f"ipcontroller-{self.cluster_id}-engine.json"
        return read_whole(path) is not None


def read_whole(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds; None while it is not there, or still being written."""
    try:
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    except (OSError, ValueError):
        return None


@dataclass
class Host:
    """Obeys orders and watches children, all on the main thread."""

    children: Children
    orders: int
    assignment: Assignment | None = None
    wanted: list[dict[str, Any]] = field(default_factory=list)
    preloaded: bool = False
    _unread: bytes = b""

    def serve(self) -> None:
        """Runs until end of input, or until the preload fails."""
        wakeup, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(wake)
        while True:
            waiting = self.wanted or (self.assignment and not self.preloaded)
            ready, _, _ = select.select([self.orders, wakeup], [], [], 0.005 if waiting else None)
            if wakeup in ready:
                os.read(wakeup, 4096)
            if self.orders in ready and not self._read():
                return
            self.children.reap()
            if self.assignment and not self.preloaded and not self._preload(self.assignment):
                return
            if self.assignment and self.wanted and self.assignment.controller_is_ready():
                self._start_engines(self.assignment)

    def _read(self) -> bool:
        data = os.read(self.orders, 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(data)

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self.wanted.extend(order["start"])
        elif "signal" in order:
            self.children.signal(order["signal"], order["process_ids"])
        else:
            self.assignment = Assignment(**order)
            self._start_controller(self.assignment)

    def _start_controller(self, assignment: Assignment) -> None:
        arguments = assignment.controller_arguments
        if arguments is not None:
            self.children.start(
                CONTROLLER,
                Path(assignment.folder) / "controller.log",
                lambda: _run_controller(arguments),
                # It has processes of its own, which it ends on this signal.
                death_signal=signal.SIGTERM,
            )

    def _preload(self, assignment: Assignment) -> bool:
        """Imports what all engines need; tells why when it cannot."""
        started = time.monotonic()
        engine = ["ipyparallel.engine.app", "ipyparallel.engine.nanny"]
        # Imports make much and leave little behind: without collections they take a sixth less time.
        gc.disable()
        for module in [*engine, *assignment.preload] if assignment.fork else []:
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001 - whatever a package raises becomes an event
                text = f"{type(error).__name__}: {error}"
                trace = traceback.format_exc()
                self.children.tell("failed", module=module, error=text, trace=trace)
                return False
        # What is there now stays: no collection in a child need look at it, and copy its memory.
        gc.freeze()
        gc.enable()
        self.children.tell("preloaded", seconds=time.monotonic() - started)
        self.preloaded = True
        return True

    def _start_engines(self, assignment: Assignment) -> None:
        run = _fork_engine if assignment.fork else _spawn_engine
        for process in self.wanted:
            self.children.start(
                process["process_id"],
                Path(assignment.folder) / f"process-{process['process_id']}.log",
                lambda process=process: run(assignment, process),  # type: ignore[misc]
                death_signal=signal.SIGKILL,
            )
        self.wanted = []


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be set for the wake-up descriptor to be written."""


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _run_controller(arguments: list[str]) -> None:
    from ipyparallel.controller.app import IPController

    IPController.launch_instance(arguments)


def _fork_engine(assignment: Assignment, process: dict[str, Any]) -> None:
    from nbdist.engine.process import run_engine

    os.environ.update(process["environment"])
    run_engine(assignment.folder, assignment.cluster_id, fork_nanny=True)


def _spawn_engine(assignment: Assignment, process: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "nbdist.engine.process"]
    command += [assignment.folder, assignment.cluster_id]
    os.execve(sys.executable, command, {**os.environ, **process["environment"]})


def main() -> None:
    """Entry point."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    events = os.fdopen(os.dup(1), "w")
    # What libraries print while they are imported must not be taken for an event.
    os.dup2(2, 1)
    children = Children(events)
    try:
        Host(children=children, orders=0).serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        children.stop()


if __name__ == "__main__":
    main()
