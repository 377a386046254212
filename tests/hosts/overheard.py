"""What somebody reads who listens on the network of a test bed."""

from __future__ import annotations

import json
import socket
import threading
from types import TracebackType

from tests.testbed.hosts import TestBed

EVERYTHING = 0x0003
"""`ETH_P_ALL` of packet(7): each packet, of any protocol."""

BUFFER_BYTES = 64 << 20
POLL_SECONDS = 0.2
PIECE = 16


class ForeignOutput:
    """Keeps each packet that passes this machine, which is at one end of each host's cable, until leaving."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> ForeignOutput:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERYTHING))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._socket.settimeout(POLL_SECONDS)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._socket.close()

    def has(self, text: str) -> bool:
        """Whether a packet has this text, or a piece of it: it may be cut in two."""
        pieces = [text[i : i + PIECE].encode() for i in range(0, len(text), PIECE)]
        return any(piece in packet for packet in self.packets for piece in pieces)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            try:
                self.packets.append(self._socket.recv(1 << 16))
            except TimeoutError:
                continue


def key_of_engines(bed: TestBed, i: int) -> str:
    """The session's key, as the engines of host i have it."""
    (path,) = bed.files_left(i, "/tmp/nbdist-*/security/ipcontroller-nbdist-engine.json")
    key: str = json.loads(bed.exec(i, "cat", str(path)).stdout)["key"]
    assert len(key) == 64
    return key
