"""The part of HTTP/2 that a relay of gRPC must read: which requests wait for an answer, and how to cancel one.

Source: RFC 9113, sections 3.4 (preface), 4.1 (frames), 6.2 (HEADERS), 6.4 (RST_STREAM) and 7 (CANCEL). For gRPC a
stream is one request, and CANCEL its status CANCELLED
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
"""

from __future__ import annotations

from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9
DATA, HEADERS, RST_STREAM = 0x0, 0x1, 0x3
END_STREAM = 0x1
CANCEL = 0x8

Frame = tuple[int, int, int]
"""Type, flags, and the number of the stream."""


class Frames:
    """A reader of frame heads in one direction of a connection, wherever the bytes are cut.

    Args:
      skipped: How many bytes come before the first frame.
    """

    def __init__(self, skipped: int = 0) -> None:
        self._skip = skipped
        self._head = b""

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames whose heads are complete with these bytes."""
        while data:
            passed = min(self._skip, len(data))
            self._skip -= passed
            data = data[passed:]
            missing = HEAD - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if self._skip == 0 and len(self._head) == HEAD:
                head, self._head = self._head, b""
                self._skip = int.from_bytes(head[:3])
                yield head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF

    @property
    def missing(self) -> int:
        """How many bytes of a frame that has begun have not come."""
        return self._skip + (HEAD - len(self._head) if self._head else 0)


class Requests:
    """The requests of one connection that have not been answered completely."""

    def __init__(self) -> None:
        self._asking = Frames(skipped=len(PREFACE))
        self._answering = Frames()
        self._open: dict[int, None] = {}

    def asked(self, data: bytes) -> None:
        """Note bytes that the client has sent."""
        for kind, _, stream in self._asking.read(data):
            if kind == HEADERS:
                self._open[stream] = None
            elif kind == RST_STREAM:
                self._open.pop(stream, None)

    def answered(self, data: bytes) -> None:
        """Note bytes that the server has sent."""
        for kind, flags, stream in self._answering.read(data):
            ends = kind in (DATA, HEADERS) and flags & END_STREAM
            if ends or kind == RST_STREAM:
                self._open.pop(stream, None)

    def cancelled(self) -> bytes:
        """Return the bytes that end all open requests as cancelled, to be sent to the client."""
        rest = bytes(self._answering.missing)
        self._answering = Frames()
        streams, self._open = [*self._open], {}
        return rest + b"".join(map(_cancel, streams))


def _cancel(stream: int) -> bytes:
    head = (4).to_bytes(3) + bytes([RST_STREAM, 0]) + stream.to_bytes(4)
    return head + CANCEL.to_bytes(4)
