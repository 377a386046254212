"""The kernel's end of one host's parent (`nbdist.engine.host`): orders out, events in."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nbdist.engine.host import CONTROLLER, Assignment
from nbdist.launch.last_words import LOG_LINES, tail

STOP_SECONDS = 3.0
"""What the parent may take to stop all it started; it needs about 0.6 s at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a process ended.

    `code` is its exit status, or minus the signal's number; `oom` whether the out-of-memory killer of this
    host was at work since the session began. `last_lines` is the end of what it wrote to its own standard
    error and output. `because_of` names another process whose end took this one out of reach.
    """

    process_id: int
    pid: int
    code: int
    oom: bool
    time: float
    last_lines: tuple[str, ...]
    because_of: str | None = None

    def __str__(self) -> str:
        if self.because_of is not None:
            return f"out of reach: {self.because_of} {self._ending()}"
        return self._ending()

    def _ending(self) -> str:
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-self.code).name
            if self.oom:
                return f"killed by signal {-self.code} ({name}), out of memory"
            return f"killed by signal {-self.code} ({name})"
        return f"killed by signal {-self.code}"


class HostProcess:
    """A running parent, held by its process handle and its pipes.

    Args:
      assignment: What it is for.
      environment: All of its environment.
      on_event: Called from a thread of this object with each event of the parent.
    """

    def __init__(
        self,
        assignment: Assignment,
        *,
        environment: Mapping[str, str],
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        self.folder = Path(assignment.folder)
        self._on_event = on_event
        self._lock = threading.Lock()
        self.pids: dict[int, int] = {}
        self.exits: dict[int, Exit] = {}
        self.failure: dict[str, Any] | None = None
        self.ended_at: float | None = None
        # Its standard error may be needed when it fails before it can say anything.
        self._errors = (self.folder / "host.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.engine.host"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C in the kernel's terminal is the kernel's to handle
        )
        self._reader = threading.Thread(target=self._read, name="nbdist-host", daemon=True)
        self._reader.start()
        self._order(asdict(assignment))

    def start(self, processes: Sequence[Mapping[str, Any]]) -> None:
        """Asks for engines: one `{"process_id": …, "environment": {…}}` each."""
        self._order({"start": [dict(process) for process in processes]})

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Sends a signal to engines."""
        self._order({"signal": int(number), "process_ids": list(process_ids)})

    def poll(self) -> int | None:
        """The parent's exit status, or None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Stops everything this parent started, and the parent; returns when all are gone."""
        with contextlib.suppress(OSError), self._lock:
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(0.1)
        except subprocess.TimeoutExpired:
            # It may be in the middle of a long import and not reading.
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()  # its children are told by the operating system
                self._process.wait()
        self._reader.join(1.0)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def last_lines(self, process_id: int, *, lines: int = LOG_LINES) -> tuple[str, ...]:
        """The end of what a process wrote to its own standard error and output."""
        name = "controller.log" if process_id == CONTROLLER else f"process-{process_id}.log"
        return tail(self.folder / name, lines=lines)

    def out_of_reach(self) -> Exit | None:
        """The end of the controller or of this parent, with which all engines are lost; None while both run."""
        controller = self.exits.get(CONTROLLER)
        if controller is not None:
            return replace(controller, because_of="ipyparallel's controller")
        if self.ended_at is None:
            return None
        return Exit(
            process_id=CONTROLLER,
            pid=self._process.pid,
            code=self._process.wait(),
            oom=False,
            time=self.ended_at,
            last_lines=tail(self.folder / "host.log"),
            because_of="the engines' parent process",
        )

    def _order(self, order: Mapping[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            kind = event["event"]
            if kind == "started":
                self.pids[event["process_id"]] = event["pid"]
            elif kind == "failed":
                self.failure = event
            elif kind == "exited":
                self._ended(event)
            self._on_event(event)
        self.ended_at = time.time()
        self._on_event({"event": "ended", "time": self.ended_at})

    def _ended(self, event: Mapping[str, Any]) -> None:
        process_id = event["process_id"]
        self.exits[process_id] = Exit(
            process_id=process_id,
            pid=event["pid"],
            code=event["code"],
            oom=event["oom"],
            time=event["time"],
            last_lines=self.last_lines(process_id),
        )
