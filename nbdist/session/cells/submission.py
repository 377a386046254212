"""Sending of one cell to engines through ipyparallel, with its output as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from nbdist.launch.start.client import channel_to

Message = dict[str, Any]
OnMessage = Callable[[Message], None]

MOST_AT_ONCE = 32
"""The most requests that are nested in each other; each takes five of Python's thousand stack frames."""


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
        """Whether the reply has arrived; output may still be on its way."""
        return self.future.done()

    def error(self) -> Any | None:
        """Return ipyparallel's RemoteError or EngineError; None if the cell succeeded."""
        try:
            reply = self.future.result(0)
        except Exception as error:  # noqa: BLE001 - an AsyncResult raises what a future returns
            return error
        return reply if isinstance(reply, BaseException) else None


@dataclass(frozen=True, slots=True)
class Recipient:
    """One engine that gets a cell.

    Attributes:
      engine: Its number in ipyparallel.
      ident: Its routing name.
      on_message: Called with the messages of its output, on the client's own thread.
    """

    engine: int
    ident: bytes
    on_message: OnMessage


def submit(
    client: Any,
    recipients: Mapping[int, Recipient],
    code: str,
    label: str,
    on_requests: Callable[[Mapping[int, str]], None] = lambda requests: None,
) -> dict[int, Submission]:
    """Send execute requests to engines, in the order of `recipients`.

    A request to an engine that has just gone fails in the same way as one to an engine that dies in the cell.

    Args:
      client: ipyparallel's Client.
      recipients: The engines, by process id.
      code: The code to run.
      label: The cell's label, which the engines read.
      on_requests: Called before requests are sent, with the numbers of all requests so far, by process id; once
        for each `MOST_AT_ONCE` requests.

    `Client.send_execute_request` with its hook is public. The hook is called before the message goes to the
    sending thread: only so is the first message of output never missed, and the number of a request known before
    it is sent. If `channel_to` gives no channel, the cell still runs, but its number is known only after sending,
    and its output arrives when it ends.
    """
    there = set(client.ids)
    found = {p: _to_nobody(r.engine) for p, r in recipients.items() if r.engine not in there}
    process_ids = [p for p in recipients if p not in found]
    if process_ids:
        sending = _Sending(client, recipients, code, label, on_requests)
        channel = channel_to(client, [recipients[p].engine for p in process_ids])
        for begin in range(0, len(process_ids), MOST_AT_ONCE):
            sending.send(process_ids[begin : begin + MOST_AT_ONCE], channel)
        found |= sending.submissions
    return {process_id: found[process_id] for process_id in recipients}


class _Sending:
    """Requests made in the hooks of other requests, so that all have numbers before any is sent.

    Arguments as for `submit`.
    """

    def __init__(
        self,
        client: Any,
        recipients: Mapping[int, Recipient],
        code: str,
        label: str,
        on_requests: Callable[[Mapping[int, str]], None],
    ) -> None:
        self.submissions: dict[int, Submission] = {}
        self._requests: dict[int, str] = {}
        self._client = client
        self._recipients = recipients
        self._code = code
        self._label = label
        self._on_requests = on_requests

    def send(self, process_ids: Sequence[int], channel: Any | None) -> None:
        """Send to these processes, in this order."""
        if not process_ids:
            self._on_requests(dict(self._requests))
            return
        *others, last = process_ids
        if channel is None:
            self.send(others, None)
            self._send_without_streaming(last)
            return
        recipient = self._recipients[last]

        def hook(future: Any) -> None:
            take = recipient.on_message
            future.iopub_callbacks.append(lambda message: _pass_on(future, message, take))
            self._requests[last] = future.msg_id
            self.send(others, channel)

        future = self._client.send_execute_request(
            channel,
            self._code,
            silent=False,
            ident=recipient.ident,
            metadata={"label": self._label},
            message_future_hook=hook,
        )
        self.submissions[last] = Submission(future, future.output)

    def _send_without_streaming(self, process_id: int) -> None:
        recipient = self._recipients[process_id]
        try:
            view = self._client[recipient.engine]
        except IndexError:
            self.submissions[process_id] = _to_nobody(recipient.engine)
            return
        result = view.execute(self._code, silent=False, block=False, label=self._label)
        self._requests[process_id] = result.msg_ids[-1]
        self._on_requests(dict(self._requests))
        output: Future[Any] = Future()

        def finish(_: Any) -> None:
            result.wait_for_output(5)
            for name in ("stdout", "stderr"):
                if text := "".join(result[name] or ()):
                    recipient.on_message(_message("stream", {"name": name, "text": text}))
            for content in result["outputs"] or ():
                for part in content if isinstance(content, list) else [content]:
                    recipient.on_message(_message("display_data", part))
            if shown := result["execute_result"]:
                recipient.on_message(_message("execute_result", shown))
            output.set_result(None)

        result.add_done_callback(finish)
        self.submissions[process_id] = Submission(result, output)


def _message(kind: str, content: Any) -> Message:
    return {"msg_type": kind, "content": content}


def _to_nobody(engine: int) -> Submission:
    reply: Future[Any] = Future()
    output: Future[Any] = Future()
    reply.set_exception(IndexError(f"No such engine: {engine}"))  # as ipyparallel says it
    output.set_result(None)
    return Submission(reply, output)


def _pass_on(future: Any, message: Message, on_message: OnMessage) -> None:
    """Pass a message on, and drop ipyparallel's own copy.

    The client would otherwise collect all output of a cell in memory, in one growing string.
    """
    kept = future.output.metadata
    kept["stdout"] = kept["stderr"] = ""
    kept["outputs"].clear()
    on_message(message)
