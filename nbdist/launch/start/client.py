"""ipyparallel's client, which unpickles nothing, and hands on what comes of a request that it has forgotten."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import ipyparallel
from ipyparallel.serialize import serialize_object
from jupyter_client.session import DELIM
from jupyter_client.session import Session as Wire

from nbdist.errors import WireError
from nbdist.launch.start.reply import read_reply
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

DATA = "data_message"

MOST_REQUESTS = 10_000
"""Of so many requests, the newest, late messages are handed on."""

CLOSE_SECONDS = 5.0
"""So long closing may take; it takes milliseconds."""

Message = dict[str, Any]


class Client(ipyparallel.Client):
    """A client that trusts engines with nothing but data, and listens for longer.

    ipyparallel unpickles what engines answer and publish, and a pickle can run anything. Answers are read by
    `read_reply`; one that is refused fails its request as `WireError`. Data that is published (`data_message`),
    for which nbdist has no use, is left out.

    ipyparallel forgets a request once its reply and the end of its output are here. What threads and callbacks of
    that request show later it would only collect in memory.

    Private API: `ipyparallel.Client._dispatch_iopub` takes the frames of each message of the engines, on the
    client's own thread, `_handle_apply_reply` the message of each answer, `_handle_execute_reply` that of each
    cell's end, `_extract_metadata` reads when it was, and `_futures` holds the requests that are not forgotten
    (ipyparallel 9.2). Without the last, late messages are handed on to nobody; without the one before, an answer
    takes longer to read; a test says when one of the others is gone.
    """

    _is_closing = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self._listeners: OrderedDict[str, Callable[[Message], None]] = OrderedDict()
        self._late = MessageGuard("Late output of a process", logger)
        self._published = MessageGuard("Data that a process has published", logger)
        super().__init__(*args, **options)
        # Of its own: a session takes each signature once.
        self._reader = Wire(key=self.session.key, signature_scheme=self.session.signature_scheme)

    def close(self, linger: int | None = None) -> None:
        """Closes its connections, once, and waits no longer for it than `CLOSE_SECONDS`.

        ipyparallel waits without a limit for the thread on which it reads answers, which may wait for ever itself:
        for a lock that an interrupt has left taken, where a cell of the notebook has used this client.

        Args:
          linger: How long what was not sent yet may take, in milliseconds; None: as ZeroMQ does.
        """
        if self._is_closing:
            return
        self._is_closing = True
        closing = threading.Thread(
            target=super().close, args=(linger,), name="nbdist-close", daemon=True
        )
        try:
            closing.start()
        except RuntimeError:  # "can't create new thread at interpreter shutdown"
            super().close(linger)
            return
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            logger.warning("ipyparallel's client was not closed within %g s.", CLOSE_SECONDS)

    def listen(self, request: str, take: Callable[[Message], None]) -> None:
        """Has `take` called, on the client's own thread, with what comes of a request that was forgotten.

        Args:
          request: The number of the request; a second listener of one takes the place of the first.
          take: Gets each message of its output, in order.
        """
        self._listeners[request] = take
        while len(self._listeners) > MOST_REQUESTS:
            self._listeners.popitem(last=False)

    def _is_awaited(self, message: Message) -> bool:
        """Whether this client has asked; the reply to one before it may come through a controller that is new."""
        request = message["parent_header"].get("msg_id")
        return request in getattr(self, "_futures", (request,))

    def _handle_execute_reply(self, message: Message) -> None:
        if self._is_awaited(message):
            super()._handle_execute_reply(message)

    def _handle_apply_reply(self, message: Message) -> None:
        if not self._is_awaited(message):
            return
        content = message["content"]
        if content["status"] == "ok":
            try:
                # What ipyparallel unpickles next was pickled here.
                message = {**message, "buffers": serialize_object(read_reply(message["buffers"]))}
            except WireError as error:
                failed = {"status": "error", "ename": "WireError", "evalue": str(error)}
                message = {**message, "content": {**failed, "traceback": []}}
        super()._handle_apply_reply(message)

    def _extract_metadata(self, message: Message) -> dict[str, Any]:
        """As ipyparallel does, whose reading of one date takes longer than all else of an answer."""
        metadata = message["metadata"]
        started = _date(metadata.get("started"))
        if started is None:
            found: dict[str, Any] = super()._extract_metadata(message)
            return found
        others = {name: value for name, value in metadata.items() if name != "started"}
        return {**super()._extract_metadata({**message, "metadata": others}), "started": started}

    def _dispatch_iopub(self, frames: Sequence[Any]) -> None:
        if is_data(frames):
            with self._published:
                raise WireError("it may be a pickle, and nothing here has a use for it")
            return
        request = request_of(frames)
        take = self._listeners.get(request) if request is not None else None
        forgotten = request not in getattr(self, "_futures", (request,))
        super()._dispatch_iopub(frames)
        if take is not None and forgotten:
            with self._late:
                self.metadata.pop(request, None)  # ipyparallel's own copy would grow without end
                _, parts = self._reader.feed_identities([bytes(frame) for frame in frames])
                take(self._reader.deserialize(parts))


def _date(text: Any) -> datetime | None:
    """A date with a time zone; None for anything else, which ipyparallel reads."""
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo is not None else None


def request_of(frames: Sequence[Any]) -> str | None:
    """The number of the request that a message answers; None for one that answers none."""
    return _field(frames, 3, "msg_id")


def is_data(frames: Sequence[Any]) -> bool:
    """Whether a message is what `ipyparallel.publish_data` sends."""
    # Hardly any is, and all output of all cells comes by here: its header is read only where it may be.
    return DATA.encode() in (_part(frames, 2) or b"") and _field(frames, 2, "msg_type") == DATA


def _part(frames: Sequence[Any], part: int) -> bytes | None:
    """One part of a message, counted from its delimiter; None where it has none.

    Source: the Jupyter wire protocol: delimiter, signature, header, parent header.
    """
    begin = next((i for i, frame in enumerate(frames[:8]) if bytes(frame) == DELIM), None)
    return None if begin is None or len(frames) <= begin + part else bytes(frames[begin + part])


def _field(frames: Sequence[Any], part: int, name: str) -> str | None:
    """A text of one part of a message; None where it says none."""
    found = _part(frames, part)
    if found is None:
        return None
    try:
        read = json.loads(found)
    except ValueError:
        return None
    value = read.get(name) if isinstance(read, dict) else None
    return value if isinstance(value, str) else None
