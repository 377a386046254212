"""The kernel's end of `nbdist.engine.kernel.calls`: a request, and its answer to wait for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ipyparallel.error import RemoteError

import nbdist.errors as errors
from nbdist.engine.kernel.calls import Call


class Request:
    """One request to one engine.

    Args:
      result: ipyparallel's AsyncResult of it.
      where: Names the process in error texts.

    Attributes:
      computed: Whether the process has used devices of others for its answer; known once it was got.
    """

    def __init__(self, result: Any, where: str) -> None:
        self._result = result
        self._where = where
        self.computed = False

    def ready(self) -> bool:
        """Whether the answer is there."""
        return bool(self._result.ready())

    def wait(self, timeout_s: float) -> None:
        """Waits for the answer."""
        self._result.wait(timeout_s)

    def get(self, timeout_s: float | None = None) -> tuple[dict[str, Any], Sequence[Any]]:
        """The answer and its buffers.

        Raises:
          NbdistError: What the engine's side raised, as the same class where it is one of ours.
          GoneError: The process has ended.
          WireError: It has answered what is no data; see `nbdist.launch.start.reply`.
          TimeoutError: Not there after `timeout_s` seconds.
        """
        try:
            text, *buffers = self._result.get(timeout_s)
        except RemoteError as error:
            if error.ename == "WireError":
                raise errors.WireError(f"{self._where}: {error.evalue}") from None
            kind = errors.GoneError if error.ename == "EngineError" else errors.SessionError
            raise kind(f"{self._where}: {error.ename}: {error.evalue}") from None
        answer = json.loads(text)
        self.computed = bool(answer.get("computed"))
        if "error" in answer:
            raise typed(answer["error"], self._where)
        return answer["ok"], buffers


def ask(view: Any, name: str, *buffers: bytes, where: str = "", **arguments: Any) -> Request:
    """Sends a request to the one engine of `view`; does not wait.

    Args:
      view: ipyparallel's DirectView of one engine.
      name: A key of `nbdist.engine.kernel.calls.CALLS`.
      *buffers: Raw data that goes along.
      where: Names the process in error texts, such as `process 1 (host h1)`.
      **arguments: JSON-able arguments.
    """
    call = Call(name, json.dumps(arguments))
    result = view.set_flags(label=call.label).apply_async(call, *buffers)
    return Request(result, where or f"engine {view.targets}")


def typed(error: dict[str, str], where: str) -> Exception:
    """The exception an engine's error reply stands for."""
    kind = getattr(errors, error["type"], None)
    if isinstance(kind, type) and issubclass(kind, errors.NbdistError):
        return kind(error["text"])
    return errors.SessionError(f"{where}: {error['type']}: {error['text']}")
