"""Connections to engines through ipyparallel's controller; nothing that engines send is executed here.

`Client` sends requests and reads answers. `subscriber` returns a socket of our own that receives the engines'
messages, whoever sent the requests.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import ipyparallel
import zmq
from ipyparallel.serialize import serialize_object
from jupyter_client.session import DELIM
from jupyter_client.session import Session as Wire

from nbdist.errors import WireError
from nbdist.message_guard import MessageGuard
from nbdist.spelling import command

logger = logging.getLogger(__name__)

Buffer = bytes | memoryview

JSON = b"{"
"""The beginning of the first buffer of an answer of ours; no pickle begins so (its first byte is 0x80)."""


def read_reply(buffers: Sequence[Buffer]) -> Any:
    """Return an engine's answer to a request, and execute nothing of it.

    Args:
      buffers: The buffers of ipyparallel's `apply_reply`: an answer to `nbdist.engine.kernel.calls.SentCall`, or a
        pickle of plain data, with which an engine without this nbdist answers when asked to describe itself.

    Returns:
      A list of the JSON, as text, and the buffers after it; or the plain data.

    Raises:
      WireError: The answer is neither. Nothing of it was executed.
    """
    if not buffers:
        raise WireError("An engine's answer is empty.")
    first = bytes(buffers[0])
    if first.startswith(JSON):
        try:
            return [first.decode(), *buffers[1:]]
        except UnicodeDecodeError as error:
            raise WireError(f"An engine's answer is no text: {error}.") from error
    try:
        return _Plain(io.BytesIO(first)).load()
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"An engine's answer cannot be read: {error}.") from error


class _Plain(pickle.Unpickler):
    """Unpickler of numbers, texts, bytes and containers only: a pickle cannot name anything to call."""

    def find_class(self, module: str, name: str) -> Any:
        raise WireError(
            f"An engine's answer wants to call {module}.{name} in this notebook's kernel; it was refused, and "
            f"nothing of it was executed. Stop the session ({command('shutdown')}): its host may be in other "
            "hands."
        )


DATA = "data_message"

MOST_REQUESTS = 10_000
"""How many of the newest requests have their late messages passed on."""

CLOSE_SECONDS = 5.0
"""Seconds that closing may take; it takes milliseconds."""

Message = dict[str, Any]


class Client(ipyparallel.Client):
    """ipyparallel's client, but without unpickling, and with listeners for late output of forgotten requests.

    ipyparallel unpickles what engines answer and publish, and a pickle can run anything. Here `read_reply` reads
    answers; a request whose answer it refuses fails with `WireError`. Published data (`data_message`) are dropped,
    since nbdist does not use them.

    ipyparallel forgets a request once its reply and the end of its output have arrived. Later output of its
    threads and callbacks would only pile up in memory.

    Private API of ipyparallel 9.2: `ipyparallel.Client._dispatch_iopub` gets the frames of each message of the
    engines, on the client's own thread; `_handle_apply_reply` gets the message of each answer,
    `_handle_execute_reply` that of each cell's end; `_extract_metadata` reads the dates of a reply; `_futures`
    holds the requests that are not forgotten. Without `_futures`, late messages are dropped; without
    `_extract_metadata`, an answer takes longer to read; a test fails if one of the others is gone.
    """

    _is_closing = False

    def __init__(self, *args: Any, **options: Any) -> None:
        self._listeners: OrderedDict[str, Callable[[Message], None]] = OrderedDict()
        self._late = MessageGuard("Late output of a process", logger)
        self._published = MessageGuard("Data that a process has published", logger)
        super().__init__(*args, **options)
        # A second session, since a session accepts each signature only once.
        self._reader = Wire(key=self.session.key, signature_scheme=self.session.signature_scheme)

    def close(self, linger: int | None = None) -> None:
        """Close the connections, once, and wait for at most `CLOSE_SECONDS`.

        ipyparallel waits without a limit for the thread on which it reads answers. If a cell of the notebook has
        used this client, that thread may itself wait forever, for a lock that an interrupt has left taken.

        Args:
          linger: How long unsent messages may take, in milliseconds; None: as ZeroMQ does.
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
        """Call `take`, on the client's own thread, with the late messages of a request that was forgotten.

        Args:
          request: The id of the request; a second listener of one request replaces the first.
          take: Gets each message of its output, in order.
        """
        self._listeners[request] = take
        while len(self._listeners) > MOST_REQUESTS:
            self._listeners.popitem(last=False)

    def _is_awaited(self, message: Message) -> bool:
        """Return whether this client sent the request; a new controller may bring replies to an earlier client."""
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
        """Return the metadata as ipyparallel does, but parse faster the one date that takes most of the time."""
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
    """Return a date with a time zone; None for anything else, which ipyparallel reads."""
    try:
        date = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo is not None else None


def request_of(frames: Sequence[Any]) -> str | None:
    """Return the id of the request that a message answers; None if it answers none."""
    return _field(frames, 3, "msg_id")


def is_data(frames: Sequence[Any]) -> bool:
    """Return whether `ipyparallel.publish_data` sent a message."""
    # All output of all cells passes here, and hardly any is data: the header is parsed only if it may be.
    return DATA.encode() in (_part(frames, 2) or b"") and _field(frames, 2, "msg_type") == DATA


def _part(frames: Sequence[Any], part: int) -> bytes | None:
    """Return one part of a message, counted from its delimiter; None if the message lacks it.

    Source: the Jupyter wire protocol: delimiter, signature, header, parent header.
    """
    begin = next((i for i, frame in enumerate(frames[:8]) if bytes(frame) == DELIM), None)
    return None if begin is None or len(frames) <= begin + part else bytes(frames[begin + part])


def _field(frames: Sequence[Any], part: int, name: str) -> str | None:
    """Return a text field of one part of a message; None if it has none."""
    found = _part(frames, part)
    if found is None:
        return None
    try:
        read = json.loads(found)
    except ValueError:
        return None
    value = read.get(name) if isinstance(read, dict) else None
    return value if isinstance(value, str) else None


def wire(connection: Mapping[str, Any]) -> Wire:
    """Return a reader of messages that are signed with a session's key."""
    return Wire(key=connection["key"].encode(), signature_scheme=connection["signature_scheme"])


def subscriber(
    context: zmq.Context[zmq.Socket[bytes]], connection: Mapping[str, Any], topics: Iterable[bytes]
) -> zmq.Socket[bytes]:
    """Return a socket that receives these topics; a subscription takes a moment to arrive.

    Args:
      context: The context of the thread that will use the socket.
      connection: ipyparallel's client connection info.
      topics: The beginnings of the topics to receive.
    """
    socket = context.socket(zmq.SUB)
    socket.RCVHWM = 0
    socket.LINGER = 0
    for topic in topics:
        socket.setsockopt(zmq.SUBSCRIBE, topic)
    server = connection.get("curve_serverkey")
    if server:
        # If the controller uses CURVE, this socket has a key pair of its own.
        socket.curve_serverkey = server.encode()
        socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
    socket.connect(f"{connection['interface']}:{connection['iopub']}")
    return socket


def channel_to(client: Any, engines: Iterable[int]) -> Any | None:
    """Return the channel to all engines, of a view of one; None where every one of them has left, or it is gone.

    Making a view takes a third of the time of a request.

    Private API: `DirectView._socket` (ipyparallel 9.2).
    """
    for engine in engines:
        with contextlib.suppress(IndexError):  # one that has left just now
            return getattr(client[engine], "_socket", None)
    return None
