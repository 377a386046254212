"""Processes of a host's agent: its children from their start to their end, and the engines among them.

An engine is a fork of the agent, which has imported once what all engines of the host need, or a fresh
interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from nbdist.agent.sync import FOLDER, put_on_path
from nbdist.contract.events import Events, Exited, ImportFailed, Started
from nbdist.contract.orders import Assignment, NewProcess
from nbdist.machine.processes import OutOfMemoryKills, die_with, tail

TERMINATE_SECONDS = 0.5
"""Seconds in which a process may end by itself after SIGTERM before it gets SIGKILL."""


class Children:
    """The child processes of an agent, each a process group of its own: started, signalled, reaped and stopped.

    Used from one thread: the operating system ties a child's death signal to the *thread* that forked it.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._pids: dict[int, int] = {}
        self._logs: dict[int, tuple[Path, int]] = {}
        self._asked: dict[int, int] = {}
        self._memory_kills = OutOfMemoryKills()

    def __len__(self) -> int:
        return len(self._pids)

    def start(
        self,
        process_id: int,
        log: Path,
        main: Callable[[], None],
        *,
        death_signal: int,
        asked: tuple[int, int] | None = None,
    ) -> None:
        """Fork a child that runs `main`, its output appended to `log` (made with mode 0600).

        `asked` are the ends of a pipe: the child reads the first, `ask` writes to the second.
        """
        # A process that replaces another appends to the log of the one before.
        written = log.stat().st_size if log.exists() else 0
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for descriptor in (*self._asked.values(), *(asked or ())[1:]):
                os.close(descriptor)
            become(main, log, parent, death_signal)
        self._pids[pid] = process_id
        self._logs[pid] = log, written
        if asked is not None:
            os.close(asked[0])
            os.set_blocking(asked[1], False)
            self._asked[pid] = asked[1]
        self._events.send(Started(process_id=process_id, pid=pid))

    def has(self, process_id: int) -> bool:
        """Return whether a child of this process id was started and has not been reaped."""
        return process_id in self._pids.values()

    def reap(self) -> None:
        """Report every child that has ended since the last call; do not wait."""
        self._memory_kills.look()
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            process_id = self._pids.pop(pid, None)
            if process_id is None:
                continue
            if pid in self._asked:
                os.close(self._asked.pop(pid))
            # The group may still hold what the user started from a cell.
            self._signal_group(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            self._memory_kills.look()
            log, start = self._logs.pop(pid)
            oom = code == -signal.SIGKILL and self._memory_kills.explain_one()
            self._events.send(
                Exited(
                    process_id=process_id,
                    pid=pid,
                    code=code,
                    oom=oom,
                    last_lines=tail(log, start=start),
                )
            )

    def signal(self, number: int, process_ids: Collection[int]) -> None:
        """Send a signal to the children that have one of these process ids."""
        for pid, process_id in self._pids.items():
            if process_id in process_ids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def end(self, process_id: int) -> None:
        """End one child at once, by SIGKILL."""
        self.signal(signal.SIGKILL, [process_id])

    def ask(self, process_ids: Collection[int], letter: str) -> None:
        """Send children the letter of an `Aside`."""
        for pid, descriptor in self._asked.items():
            if self._pids[pid] in process_ids:
                with contextlib.suppress(OSError):  # pipe full: enough questions wait
                    os.write(descriptor, letter.encode())

    def stop(self) -> None:
        """End all children: SIGTERM, then SIGKILL to each whole group; return when they are gone."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_SECONDS
        while self._pids and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.005)
        for pid in self._pids:
            self._signal_group(pid, signal.SIGKILL)
        while self._pids:
            self.reap()
            time.sleep(0.005)

    @staticmethod
    def _signal_group(pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


def become(main: Callable[[], None], log: Path, parent: int, death_signal: int) -> None:
    """Turn a fresh fork into the process that runs `main`; never return."""
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        die_with(parent, death_signal)
        _redirect(log)
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - the outermost frame of a process: only its log is left
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
            sys.stdout.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """Read standard input from `/dev/null`, and write both outputs to `log`."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor, replaced in ((null, 0), (out, 1), (out, 2)):
        os.dup2(descriptor, replaced)
    os.close(null)
    os.close(out)
    # These files live as long as the process.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", 1, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, closefd=False)  # type: ignore[misc]  # noqa: SIM115


def start_engines(
    children: Children,
    wanted: Iterable[NewProcess],
    assignment: Assignment,
    *,
    folder: str,
    let_go: Callable[[], None],
) -> None:
    """Start engines; each reports by itself that it is there.

    Args:
      children: The agent's children.
      wanted: The processes to start.
      assignment: The agent's assignment.
      folder: The session's private folder here.
      let_go: Called in a child to close what only the agent uses.
    """

    def become(environment: Mapping[str, str]) -> None:
        """Run the engine in the child."""
        let_go()
        put_on_path([str(Path(folder, FOLDER, path)) for path in assignment.paths])
        run = _fork if assignment.fork else _spawn
        run(folder, assignment.cluster_id, environment)

    for process in wanted:
        log = Path(folder) / f"process-{process.process_id}.log"
        asked = os.pipe()
        os.set_inheritable(asked[0], True)
        own = {"NBDIST_LOG": str(log), "NBDIST_ASKED": str(asked[0])}
        environment = {**process.environment, **own}
        children.start(
            process.process_id,
            log,
            lambda environment=environment: become(environment),  # type: ignore[misc]
            death_signal=signal.SIGKILL,
            asked=asked,
        )


def _fork(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    from nbdist.agent.programs import run_engine

    os.environ.update(environment)
    run_engine(folder, cluster_id, fork_nanny=True)


def _spawn(folder: str, cluster_id: str, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "nbdist.agent.programs", folder, cluster_id]
    os.execve(sys.executable, command, {**os.environ, **environment})


def preload(modules: Sequence[str]) -> ImportFailed | None:
    """Import what all engines of a host need, before they are forked.

    Args:
      modules: The names of the modules.

    Returns:
      None, or the event that says which module could not be imported.
    """
    # Imports make many objects and little garbage: with the collector off they take a sixth less time.
    gc.disable()
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever a package raises becomes an event
            return ImportFailed(
                module=module,
                error=f"{type(error).__name__}: {error}",
                trace=traceback.format_exc(),
            )
    # The objects made so far stay for good. Frozen, they are skipped by collections in a child, which would
    # otherwise copy their memory pages.
    gc.freeze()
    gc.enable()
    return None
