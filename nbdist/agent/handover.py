"""The way to the connection file for engines where orders come through a stream that others may read.

`srun` and `mpirun` encrypt nothing, and the file holds the session's key. So a task is sent only the address where
the kernel has the file, and the kernel's public key (CURVE). The task makes a pair of keys of its own, sends its
public key back through the stream, and asks for the file; the kernel answers only keys that its tasks have sent.
Whoever reads the stream learns only public keys. See `nbdist.launch.start.handover`.
"""

from __future__ import annotations

import json
from typing import Any


class Collecting:
    """One connection file on its way here.

    Args:
      address: The kernel's address for it, such as `tcp://10.0.0.1:40123`.
      server_key: The kernel's public key, in Z85.

    Attributes:
      public_key: The key that the kernel is to answer, in Z85.
    """

    def __init__(self, address: str, server_key: str) -> None:
        # Imported here: where orders come through ssh it is not needed.
        import zmq

        public, secret = zmq.curve_keypair()
        self.public_key = public.decode()
        self._context = zmq.Context()
        socket = self._socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.curve_serverkey = server_key.encode()
        socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.connect(address)
        socket.send(b"")

    def poll(self) -> dict[str, Any] | None:
        """Return the connection file; None while it is not here. Never wait."""
        if not self._socket.poll(0):
            return None
        found: dict[str, Any] = json.loads(self._socket.recv())
        return found

    def close(self) -> None:
        """End the connection, and the thread behind it: engines are forked from this process."""
        self._context.destroy(linger=0)
