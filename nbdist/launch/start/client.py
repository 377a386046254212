"""ipyparallel's client, which also hands on what comes of a request that it has forgotten."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import ipyparallel
from jupyter_client.session import DELIM
from jupyter_client.session import Session as Wire

from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

MOST_REQUESTS = 10_000
"""Of so many requests, the newest, late messages are handed on."""

Message = dict[str, Any]


class Client(ipyparallel.Client):
    """A client that listens for longer.

    ipyparallel forgets a request once its reply and the end of its output are here. What threads and callbacks of
    that request show later it would only collect in memory.

    Private API: `ipyparallel.Client._dispatch_iopub` takes the frames of each message of the engines, on the
    client's own thread, and `_futures` holds the requests that are not forgotten (ipyparallel 9.2). Without
    either, late messages are handed on to nobody, and all else is as before.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._listeners: OrderedDict[str, Callable[[Message], None]] = OrderedDict()
        self._late = MessageGuard("Late output of a process", logger)
        super().__init__(*args, **options)
        # Of its own: a session takes each signature once.
        self._reader = Wire(key=self.session.key, signature_scheme=self.session.signature_scheme)

    def listen(self, request: str, take: Callable[[Message], None]) -> None:
        """Has `take` called, on the client's own thread, with what comes of a request that was forgotten.

        Args:
          request: The number of the request; a second listener of one takes the place of the first.
          take: Gets each message of its output, in order.
        """
        self._listeners[request] = take
        while len(self._listeners) > MOST_REQUESTS:
            self._listeners.popitem(last=False)

    def _dispatch_iopub(self, frames: Sequence[Any]) -> None:
        request = request_of(frames)
        take = self._listeners.get(request) if request is not None else None
        forgotten = request not in getattr(self, "_futures", (request,))
        super()._dispatch_iopub(frames)
        if take is not None and forgotten:
            with self._late:
                self.metadata.pop(request, None)  # ipyparallel's own copy would grow without end
                _, parts = self._reader.feed_identities([bytes(frame) for frame in frames])
                take(self._reader.deserialize(parts))


def request_of(frames: Sequence[Any]) -> str | None:
    """The number of the request that a message answers; None for one that answers none.

    Source: the Jupyter wire protocol: delimiter, signature, header, parent header.
    """
    parts = [bytes(frame) for frame in frames[:8]]
    if DELIM not in parts or len(parts) < parts.index(DELIM) + 4:
        return None
    try:
        parent = json.loads(parts[parts.index(DELIM) + 3])
    except ValueError:
        return None
    request = parent.get("msg_id") if isinstance(parent, dict) else None
    return request if isinstance(request, str) else None
