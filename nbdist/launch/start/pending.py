"""The kernel's end of `nbdist.engine.kernel.calls`: a request, and the wait for its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ipyparallel.error import IPythonError, NoEnginesRegistered, RemoteError, TaskAborted

import nbdist.errors as errors
from nbdist.contract import calls as contract
from nbdist.engine.kernel.calls import SentCall
from nbdist.errors import GoneError
from nbdist.interrupts import put_off

A = TypeVar("A")

LOOK_SECONDS = 0.05
"""Seconds after which a wait looks for an interrupt."""


class Pending(Generic[A]):
    """One request to one engine.

    Args:
      call: The call.
      result: ipyparallel's AsyncResult of the call; None if the engine had gone before it could be asked.
      where: The name of the process in error texts.

    Attributes:
      computed: Whether the process used devices of other processes for its answer; known after `get`.
    """

    def __init__(self, call: contract.Call[A], result: Any, where: str) -> None:
        self._call = call
        self._result = result
        self._where = where
        self.computed = False

    def ready(self) -> bool:
        """Return whether the answer has arrived, or will never come."""
        with put_off():
            return self._result is None or bool(self._result.ready())

    def answered(self) -> bool:
        """Return whether the process has answered; a process that has ended never does."""
        if self._result is None or not self.ready():
            return False
        try:
            with put_off():
                self._result.get(0)
        except IPythonError as error:  # a living process may also answer with an error
            return getattr(error, "ename", None) != "EngineError"
        return True

    def wait(self, timeout_s: float) -> None:
        """Wait for the answer, for at most `timeout_s` seconds."""
        self._until_ready(timeout_s)

    def get(self, timeout_s: float | None = None) -> tuple[A, Sequence[Any]]:
        """Return the answer and its buffers.

        Raises:
          NbdistError: The error that the engine raised; of the same class if it is one of nbdist's.
          GoneError: The process has ended.
          NotRunError: An earlier cell had failed on the process, which then ran nothing that was queued behind it.
          WireError: The answer is not plain data (see `nbdist.launch.start.client`), or has another shape than
            `nbdist.contract.calls` says; or the engine expects another shape of the call.
          TimeoutError: The answer has not arrived after `timeout_s` seconds.
        """
        if self._result is None:
            raise GoneError(f"{self._where} has ended.")
        try:
            self._until_ready(timeout_s)
            with put_off():
                text, *buffers = self._result.get(0)
        except (TaskAborted, RemoteError) as error:
            match getattr(error, "ename", "TaskAborted"):
                case "TaskAborted":
                    raise errors.NotRunError(
                        f"{self._where}: not run, since an earlier cell has failed there."
                    ) from None
                case "EngineError":
                    raise GoneError(f"{self._where} has ended.") from None
                case "WireError":
                    raise errors.WireError(f"{self._where}: {error.evalue}") from None
                case other:
                    text = f"{self._where}: {other}: {error.evalue}"
                    raise errors.SessionError(text) from None
        name = self._call.NAME
        try:
            reply = contract.reply_from_text(text)
            answer = None if reply.error is not None else self._call.answer_from(reply.ok)
        except errors.WireError as error:
            raise errors.WireError(
                f"{self._where} has answered {name!r} in another shape than this kernel reads: {error}"
            ) from error
        self.computed = reply.computed
        if answer is None:
            assert reply.error is not None
            raise raised(reply.error, name, self._where)
        return answer, buffers

    def _until_ready(self, timeout_s: float | None) -> None:
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self.ready() and (left := until - time.monotonic()) > 0:
            with put_off():
                self._result.wait(min(left, LOOK_SECONDS))


def ask(
    client: Any, engine: int, call: contract.Call[A], *buffers: bytes, where: str = ""
) -> Pending[A]:
    """Send a request to one engine; do not wait.

    A request to an engine that has gone fails as if the engine had died before it answered.

    Args:
      client: ipyparallel's Client.
      engine: The engine's id in that client.
      call: One of `nbdist.contract.calls`.
      *buffers: Raw data sent with the call.
      where: The name of the process in error texts, such as `process 1 (host h1)`.

    Raises:
      WireError: The call holds something JSON has no form for; nothing was sent.
    """
    sent = SentCall(call.NAME, contract.to_text(call))
    try:
        with put_off():
            result = client[engine].set_flags(label=sent.label).apply_async(sent, *buffers)
    except (IndexError, KeyError, NoEnginesRegistered):
        # The engine has gone: another thread of ipyparallel removes it from the list at any time.
        result = None
    return Pending(call, result, where or f"engine {engine}")


class Repeated(Generic[A]):
    """A request that is sent to one engine until it answers; the engine must answer each copy alike.

    ZeroMQ drops messages to an engine whose own connection to the controller does not exist yet.

    Args:
      client: ipyparallel's Client.
      engine: The engine's id in that client.
      call: The call.
      again_s: Seconds without an answer until the request is sent again.
    """

    def __init__(self, client: Any, engine: int, call: contract.Call[A], *, again_s: float) -> None:
        self._client = client
        self._engine = engine
        self._call = call
        self._again_s = again_s
        self._asked: list[Pending[A]] = []
        self._ask()

    def answer(self, *, within_s: float) -> Pending[A] | None:
        """Return the first answer that has arrived; None if none arrives within `within_s` seconds."""
        last = self._asked[-1]
        if last.ready() and not last.answered():
            time.sleep(within_s)
        else:
            last.wait(within_s)
        for asked in self._asked:
            if asked.answered():
                return asked
        if time.monotonic() >= self._again:
            self._ask()
        return None

    def _ask(self) -> None:
        self._asked.append(ask(self._client, self._engine, self._call))
        self._again = time.monotonic() + self._again_s


def raised(failed: contract.Failed, name: str, where: str) -> Exception:
    """Return the exception that a call's failure stands for.

    Args:
      failed: The engine's report of the failure.
      name: The name of the call.
      where: The name of the process.
    """
    kind = getattr(errors, failed.type, None)
    if kind is errors.WireError:
        return kind(f"{where} could not take or answer {name!r}: {failed.text}")
    if isinstance(kind, type) and issubclass(kind, errors.NbdistError):
        return kind(failed.text)
    return errors.SessionError(f"{where}: {failed.type}: {failed.text}")
