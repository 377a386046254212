"""The kernel's end of `nbdist.engine.kernel.calls`: a request, and its answer to wait for."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ipyparallel.error import IPythonError, NoEnginesRegistered, RemoteError

import nbdist.errors as errors
from nbdist.contract.calls import call as contract
from nbdist.engine.kernel.calls import Call
from nbdist.errors import GoneError
from nbdist.interrupts import put_off

A = TypeVar("A")

LOOK_SECONDS = 0.05
"""So long an interrupt may take to end a wait."""


class Left:
    """In place of ipyparallel's AsyncResult, where an engine has left before it could be asked."""

    def ready(self) -> bool:
        """It is no use to wait."""
        return True

    def wait(self, timeout_s: float) -> None:
        """Returns at once."""

    def get(self, timeout_s: float | None) -> Any:
        """Raises what ipyparallel raises for an engine that dies before it has answered."""
        raise RemoteError("EngineError", "The engine has left.", "", {})


class Request(Generic[A]):
    """One request to one engine.

    Args:
      call: What is asked.
      result: ipyparallel's AsyncResult of it.
      where: Names the process in error texts.

    Attributes:
      computed: Whether the process has used devices of others for its answer; known once it was got.
    """

    def __init__(self, call: contract.Call[A], result: Any, where: str) -> None:
        self._call = call
        self._result = result
        self._where = where
        self.computed = False

    def ready(self) -> bool:
        """Whether the answer is there."""
        with put_off():
            return bool(self._result.ready())

    def answered(self) -> bool:
        """Whether the answer is there; none comes from a process that has ended."""
        if not self.ready():
            return False
        try:
            with put_off():
                self._result.get(0)
        except IPythonError as error:  # also of a process that lives, as `get` raises it
            return getattr(error, "ename", None) != "EngineError"
        return True

    def wait(self, timeout_s: float) -> None:
        """Waits for the answer."""
        self._until_ready(timeout_s)

    def get(self, timeout_s: float | None = None) -> tuple[A, Sequence[Any]]:
        """The answer and its buffers.

        Raises:
          NbdistError: What the engine's side raised, as the same class where it is one of ours.
          GoneError: The process has ended.
          WireError: It has answered what is no data (see `nbdist.launch.start.reply`), or what is not of the shape
            that `nbdist.contract.calls` has; or the call had another shape than it has on the engine's side.
          TimeoutError: Not there after `timeout_s` seconds.
        """
        try:
            self._until_ready(timeout_s)
            with put_off():
                text, *buffers = self._result.get(0)
        except RemoteError as error:
            if error.ename == "WireError":
                raise errors.WireError(f"{self._where}: {error.evalue}") from None
            if error.ename == "EngineError":
                raise GoneError(f"{self._where} has ended.") from None
            raise errors.SessionError(f"{self._where}: {error.ename}: {error.evalue}") from None
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
) -> Request[A]:
    """Sends a request to one engine; does not wait.

    One to an engine that has left is answered as one to an engine that dies before it has answered.

    Args:
      client: ipyparallel's Client.
      engine: Its number there.
      call: One of `nbdist.contract.calls`.
      *buffers: Raw data that goes along.
      where: Names the process in error texts, such as `process 1 (host h1)`.

    Raises:
      WireError: The call has something JSON has no form for; nothing was sent.
    """
    sent = Call(call.NAME, contract.to_text(call))
    try:
        with put_off():
            result = client[engine].set_flags(label=sent.label).apply_async(sent, *buffers)
    except (IndexError, KeyError, NoEnginesRegistered):
        # ipyparallel's: another thread takes an engine that leaves from its list, also in the middle of this line.
        result = Left()
    return Request(call, result, where or f"engine {engine}")


class Repeated(Generic[A]):
    """What one engine is asked until it answers; it must answer each request alike.

    ZeroMQ drops what is sent to an engine whose own connection to the controller is not there yet.

    Args:
      client: ipyparallel's Client.
      engine: Its number there.
      call: What is asked.
      again_s: After so many seconds without an answer it is asked again.
    """

    def __init__(self, client: Any, engine: int, call: contract.Call[A], *, again_s: float) -> None:
        self._client = client
        self._engine = engine
        self._call = call
        self._again_s = again_s
        self._asked: list[Request[A]] = []
        self._ask()

    def answer(self, *, within_s: float) -> Request[A] | None:
        """The first answer that is there; None where there is none within so many seconds."""
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
    """The exception that what a call has raised stands for.

    Args:
      failed: What the engine says.
      name: Of the call.
      where: Names the process.
    """
    kind = getattr(errors, failed.type, None)
    if kind is errors.WireError:
        return kind(f"{where} could not take or answer {name!r}: {failed.text}")
    if isinstance(kind, type) and issubclass(kind, errors.NbdistError):
        return kind(failed.text)
    return errors.SessionError(f"{where}: {failed.type}: {failed.text}")
