"""Sending one cell to one engine through ipyparallel, and hearing its output as it comes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Message = dict[str, Any]
OnMessage = Callable[[Message], None]


class Submission:
    """One execute request.

    Args:
      future: ipyparallel's MessageFuture (or AsyncResult) of the reply.
      output: Resolved when all output has arrived.
    """

    def __init__(self, future: Future[Any], output: Future[Any]) -> None:
        self.future = future
        self.output = output

    @property
    def replied(self) -> bool:
        """Whether the reply is there; output may still be on its way."""
        return self.future.done()

    def error(self) -> Any | None:
        """ipyparallel's RemoteError or EngineError, or None when the cell went through."""
        try:
            reply = self.future.result(0)
        except Exception as error:  # noqa: BLE001 - an AsyncResult raises what a future returns
            return error
        return reply if isinstance(reply, BaseException) else None


def submit(
    client: Any,
    engine: int,
    ident: bytes,
    code: str,
    label: str,
    on_message: OnMessage,
    on_request: Callable[[str], None] = lambda request: None,
) -> Submission:
    """Sends an execute request; `on_message` is called with its iopub messages on the client's own thread.

    `on_request` is called with the number of the request before that is on its way.

    One to an engine that has just left fails as one of an engine that dies in the cell.

    Private API: `DirectView._socket`, the channel to one engine (ipyparallel 9.2). The rest,
    `Client.send_execute_request` with its hook, is public; the hook, which is called before the
    message is handed to the thread that sends it, is the only means to receive the first message of output for
    certain. Where the socket is gone the cell still runs, its number is known when it has been sent, and its
    output comes when it ends.
    """
    try:
        view = client[engine]
    except IndexError as error:  # ipyparallel's, for an engine that has left
        return _to_nobody(error)
    socket = getattr(view, "_socket", None)
    if socket is None:
        return _submit_without_streaming(view, code, label, on_message, on_request)

    def hook(future: Any) -> None:
        future.iopub_callbacks.append(lambda message: _pass_on(future, message, on_message))
        on_request(future.msg_id)

    future = client.send_execute_request(
        socket,
        code,
        silent=False,
        ident=ident,
        metadata={"label": label},
        message_future_hook=hook,
    )
    return Submission(future, future.output)


def _to_nobody(error: Exception) -> Submission:
    reply: Future[Any] = Future()
    output: Future[Any] = Future()
    reply.set_exception(error)
    output.set_result(None)
    return Submission(reply, output)


def _pass_on(future: Any, message: Message, on_message: OnMessage) -> None:
    """Hands a message on, and drops ipyparallel's own copy of it.

    The client would collect all output of a cell in memory, growing one string by each piece.
    """
    kept = future.output.metadata
    kept["stdout"] = kept["stderr"] = ""
    kept["outputs"].clear()
    on_message(message)


def _submit_without_streaming(
    view: Any, code: str, label: str, on_message: OnMessage, on_request: Callable[[str], None]
) -> Submission:
    result = view.execute(code, silent=False, block=False, label=label)
    for request in result.msg_ids:
        on_request(request)
    output: Future[Any] = Future()

    def finish(_: Any) -> None:
        result.wait_for_output(5)
        for name in ("stdout", "stderr"):
            if text := "".join(result[name] or ()):
                on_message({"msg_type": "stream", "content": {"name": name, "text": text}})
        for content in result["outputs"] or ():
            for part in content if isinstance(content, list) else [content]:
                on_message({"msg_type": "display_data", "content": part})
        if shown := result["execute_result"]:
            on_message({"msg_type": "execute_result", "content": shown})
        output.set_result(None)

    result.add_done_callback(finish)
    return Submission(result, output)
