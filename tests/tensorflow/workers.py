"""Plain TensorFlow processes without nbdist between them: `TF_CONFIG` by hand, on ports of this machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Self

import psutil

from nbdist.machine.ports import ReservedPorts

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.tensorflow.tasks"])
"""TensorFlow is imported once; the import starts nothing that a fork would break."""


class Workers:
    """Processes that each run one function of `tests.tensorflow.tasks`; ended with the `with` block.

    Args:
      task: The function's name; it gets `talk`, a connection to the test, and `options`.
      number: How many. One alone gets no `TF_CONFIG`.
      reserved: Has the ports on which they serve; those of a new cluster are reserved by the test.
      options: Keyword arguments, the same for all.
    """

    def __init__(
        self, task: str, number: int, *, reserved: ReservedPorts | None = None, **options: Any
    ) -> None:
        self.task, self.options = task, options
        self.talks: list[Connection] = []
        self.processes: list[Any] = []
        self._reserved = reserved or ReservedPorts()
        self.addresses = addresses(self._reserved, number)
        for index in range(number):
            config = tf_config(self.addresses, index) if number > 1 else None
            talk, process = self.start(index, config)
            self.talks.append(talk)
            self.processes.append(process)

    def start(self, index: int, config: str | None) -> tuple[Connection, Any]:
        """One more process."""
        ours, theirs = CONTEXT.Pipe()
        arguments = (os.getpid(), self.task, index, config, theirs, self.options)
        process = CONTEXT.Process(target=_run, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return ours, process

    def receive(self, index: int, *, timeout_s: float = 90.0) -> Any:
        """The next thing one process says; its exception fails the test."""
        assert self.talks[index].poll(timeout_s), f"worker {index} is silent"
        kind, said = self.talks[index].recv()
        assert kind == "said", f"worker {index} raised:\n{said}"
        return said

    def all(self, *, timeout_s: float = 90.0) -> list[Any]:
        """The next thing each says."""
        return [self.receive(index, timeout_s=timeout_s) for index in range(len(self.talks))]

    def say(self, index: int, what: Any) -> None:
        """Sends a process something."""
        self.talks[index].send(what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self._reserved.close()


def wait_until_blocked(pid: int, *, within_s: float = 60.0) -> None:
    """Returns once a process has used no processor for half a second, as one that is blocked."""
    seen, deadline = psutil.Process(pid), time.monotonic() + within_s
    used, quiet = seen.cpu_times().user, 0
    while quiet < 5:
        assert time.monotonic() < deadline, f"process {pid} is still busy"
        time.sleep(0.1)
        before, used = used, seen.cpu_times().user
        quiet = quiet + 1 if used == before else 0


def outcome(task: str, number: int, **options: Any) -> list[Any]:
    """What each of some processes answers."""
    with Workers(task, number, **options) as workers:
        return workers.all()


def addresses(reserved: ReservedPorts, number: int) -> list[str]:
    """At ports of this machine that nobody is given while the processes import TensorFlow."""
    return [f"127.0.0.1:{port}" for port in reserved.reserve(number)]


def tf_config(addresses: list[str], index: int) -> str:
    """`TF_CONFIG` of one worker."""
    return json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    )


def _run(
    parent: int,
    task: str,
    index: int,
    config: str | None,
    talk: Connection,
    options: dict[str, Any],
) -> None:
    # Shells start what runs in the background with the signal ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from tests.tensorflow import tasks

    if config is not None:
        os.environ["TF_CONFIG"] = config
    try:
        said = getattr(tasks, task)(talk=Talk(talk), index=index, **options)
        talk.send(("said", said))
    except BaseException:
        talk.send(("raised", traceback.format_exc()))
        raise


class Talk:
    """A task's side of its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, what: Any) -> None:
        self._connection.send(("said", what))

    def receive(self) -> Any:
        return self._connection.recv()
