"""A cell that another kernel has sent and that runs on: read, interrupted and ended like a cell of this kernel.

`ForeignOutput` receives its output, `RecalledEnd` asks a process how the cell ended there, and `RegainedRun` uses
both to follow the cell.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import zmq

from nbdist.contract.calls import engine as contract
from nbdist.contract.cells import OpenCell
from nbdist.contract.iopub import Echo, Kept, KeptMessage, message_of
from nbdist.errors import GoneError, NbdistError, NotRunError
from nbdist.launch.start.client import subscriber, wire
from nbdist.launch.start.pending import Pending
from nbdist.message_guard import MessageGuard
from nbdist.notation import count_text, processes_text
from nbdist.session.cells.cellrun import CellHandle
from nbdist.session.cells.followed import FollowedRun
from nbdist.session.cells.submission import Message, Submission

logger = logging.getLogger(__name__)

POLL_MILLISECONDS = 50


class ForeignOutput:
    """The output of cells that another kernel has sent: first what the processes have kept, then new output.

    ipyparallel's client receives only the output of its own requests, so this object listens on a socket of its
    own. New output of a process is held back until the process's echo arrives, which has all output so far.
    `go_on` stops waiting for echoes.

    Args:
      connection: ipyparallel's client connection info.
      requests: The process id of each request whose output is wanted, by the number of the request.
      take: Called from a thread of this object with the process and each message of its output, in order.
      report: Called with a sentence about the first message of a kind that could not be handled.

    Attributes:
      lost: How many messages a process had dropped before its echo, by process id.
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        requests: Mapping[str, int],
        take: Callable[[int, Message], None],
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._wire = wire(connection)
        self._requests = dict(requests)
        self._take = take
        self._guard = MessageGuard("Output of an earlier cell", logger, report)
        self._lock = threading.RLock()
        self._seen: set[str] = set()
        self._held: dict[int, list[Message]] = {p: [] for p in requests.values()}
        self.lost: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbdist-foreign-output", daemon=True)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The processes whose echo has not arrived."""
        return tuple(self._held)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    def go_on(self) -> None:
        """Stop waiting for echoes, and pass on what was held back."""
        with self._lock:
            for process_id in self.waiting:
                self._release(process_id)

    def echo(self, process_id: int, kept: Kept) -> None:
        """Take the output that a process has kept, then pass on what has arrived since."""
        with self._lock:
            with self._guard:
                for message in kept.messages:
                    with self._guard:
                        self._take_kept(process_id, message)
                for request, count in kept.lost.items():
                    if self._requests.get(request) == process_id:
                        self.lost[process_id] = count
            self._release(process_id)

    def _take_kept(self, process_id: int, message: KeptMessage) -> None:
        if self._requests.get(message.parent) == process_id:
            self._once(process_id, message.id, message.kind, message.content)

    def _release(self, process_id: int) -> None:
        for message in self._held.pop(process_id, ()):
            with self._guard:
                self._once(process_id, message["id"], message["msg_type"], message["content"])

    def _once(self, process_id: int, name: str, kind: str, content: Any) -> None:
        if name not in self._seen:
            self._seen.add(name)
            self._take(process_id, {"msg_type": kind, "content": content})

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = subscriber(context, self._connection, (b"engine.", b"echo."))
        try:
            while not self._stop.is_set():
                with self._guard:
                    if socket.poll(POLL_MILLISECONDS):
                        self._receive(socket.recv_multipart())
        finally:
            socket.close()
            context.term()

    def _receive(self, frames: list[bytes]) -> None:
        try:
            topics, parts = self._wire.feed_identities(frames)
            message = self._wire.deserialize(parts)
        except (ValueError, TypeError, IndexError):
            return  # not signed with this session's key
        if topics and topics[0].startswith(b"echo."):
            echo = message_of(message["msg_type"], message["content"])
            if isinstance(echo, Echo):
                self.echo(echo.process_id, echo.kept)
            return
        process_id = self._requests.get((message["parent_header"] or {}).get("msg_id", ""))
        if process_id is None:
            return
        name, kind = message["header"]["msg_id"], message["msg_type"]
        with self._lock:
            if process_id in self._held:
                self._held[process_id].append(
                    {"id": name, "msg_type": kind, "content": message["content"]}
                )
            else:
                self._once(process_id, name, kind, message["content"])


ECHO_SECONDS = 1.0
"""The longest wait for the output that the processes have kept."""

ANSWER_SECONDS = 0.5
"""The longest wait for processes to say that they are not in the cell; one that is in it answers when it ends."""

LOOK_SECONDS = 0.01

NO_RECORD = (
    "the process has no record of it: its kernel ended before it came here, or it ended long ago"
)

Recall = Callable[[int, str], Pending[contract.Recalled]]
"""A function that asks a process how the cell of a request has ended; the answer comes after the cell."""


class RecalledError(Exception):
    """The error that a cell raised, as an engine remembers it."""

    def __init__(self, ename: str, evalue: str, traceback: str) -> None:
        super().__init__(f"{ename}: {evalue}")
        self.ename = ename
        self.evalue = evalue
        self.traceback = traceback


class RecalledEnd(Submission):
    """The end of a cell on one process, asked for with a request that is queued behind the cell.

    Args:
      ask: Sends the question; called again if an earlier failing cell made the process drop the question.
      take: Called with the answer.
    """

    def __init__(
        self,
        ask: Callable[[], Pending[contract.Recalled]],
        take: Callable[[contract.Recalled], None],
    ) -> None:
        super().__init__(Future(), Future())
        self._ask = ask
        self._take = take
        self._asked: Pending[contract.Recalled] | None = None
        self._lock = threading.Lock()  # one thread follows the cell, another may ask for its state
        self._ask_now()

    @property
    def replied(self) -> bool:
        """Whether the process has left the cell."""
        with self._lock:
            if not self.future.done() and self._asked is not None and self._asked.ready():
                self._settle(self._asked)
            return self.future.done()

    def _ask_now(self) -> None:
        try:
            self._asked = self._ask()
        except GoneError as error:
            self._end(error, time.time())

    def _settle(self, asked: Pending[contract.Recalled]) -> None:
        try:
            answer, _ = asked.get()
        except NotRunError:
            self._ask_now()
            return
        except NbdistError as error:
            self._end(error, time.time())
            return
        self._take(answer)
        if answer.end is None:
            self._end(RecalledError("NotStarted", NO_RECORD, ""), time.time())
        else:
            self._end(raised(answer), answer.end.time)

    def _end(self, error: BaseException | None, at: float) -> None:
        self.output.metadata = {"completed": datetime.fromtimestamp(at, UTC)}  # type: ignore[attr-defined]
        self.output.set_result(None)
        self.future.set_result(error)


def raised(answer: contract.Recalled) -> RecalledError | None:
    """Return the error that the cell raised; None if it succeeded, or its end is unknown."""
    text = None if answer.end is None else answer.end.error
    if text is None:
        return None
    shown = next((m.content for m in answer.kept.messages if m.kind == "error"), None)
    if shown is not None:
        return RecalledError(shown["ename"], shown["evalue"], "\n".join(shown["traceback"]))
    name, _, value = text.partition(": ")
    return RecalledError(name, value, "")


class RegainedRun(FollowedRun):
    """A cell of another kernel, whose output is shown where the session was attached."""

    def rejoin(
        self, cell: OpenCell, connection: Any, *, recall: Recall, repeat: Callable[[], None] | None
    ) -> CellHandle:
        """Begin to listen; return when the output so far is here, or after `ECHO_SECONDS`.

        Args:
          cell: The cell, as it was noted when it was sent.
          connection: ipyparallel's client connection info.
          recall: Asks a process how the cell ended.
          repeat: Has the processes send what they have kept; None if they cannot do so in the middle of a cell.
        """
        self._started = cell.started
        self.execution.number = cell.run
        # Output that a process had kept is lost when the process ends.
        gone = cell.requests.keys() & self.context.cluster.exits.keys()
        if gone:
            self.output.note(
                f"{processes_text(gone)}   ended while no kernel was there; what was printed there is lost"
            )
        requests = {request: p for p, request in cell.requests.items() if p not in gone}
        self._foreign_output = ForeignOutput(
            connection, requests, self.execution.receive, self.output.note
        )
        self._foreign_output.start()
        self._catch_up(repeat)
        for process_id, request in cell.requests.items():
            recalled = self._recalled(process_id, request, recall)
            self.execution.adopt(process_id, recalled, request)
        return self.follow(shown=True)

    def until_known(self) -> None:
        """Wait a moment until each process is known to be in the cell, to have left it, or to have missed it."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline and any(
            s.outcome == "running" and s.activity is None
            for s in self.execution.outcomes().values()
        ):
            time.sleep(LOOK_SECONDS)

    def _recalled(self, process_id: int, request: str, recall: Recall) -> RecalledEnd:
        return RecalledEnd(
            lambda: recall(process_id, request),
            lambda answer: self._foreign_output.echo(process_id, answer.kept),
        )

    def _catch_up(self, repeat: Callable[[], None] | None) -> None:
        deadline = time.monotonic() + ECHO_SECONDS
        while repeat is not None and self._foreign_output.waiting and time.monotonic() < deadline:
            repeat()  # repeated, since the subscription may not have been there
            pause = time.monotonic() + 0.1
            while self._foreign_output.waiting and time.monotonic() < pause:
                time.sleep(LOOK_SECONDS)
        without = self._foreign_output.waiting
        self._foreign_output.go_on()
        if without:
            self.output.note("output from before this kernel attached is shown when the cell ends")
        for process_id, count in sorted(self._foreign_output.lost.items()):
            self.output.note(
                f"process {process_id}   {count_text(count, 'earlier output')} lost: a process keeps only the "
                "newest 2 MiB of its output"
            )
        self._renderer.refresh(self.output)

    def _stop_listening(self) -> None:
        self._foreign_output.stop()
