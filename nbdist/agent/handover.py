"""Gets the connection file for engines where orders come through a stream that others may read.

`srun` and `mpirun` encrypt nothing, and the file holds the session's key. So a task is sent only where to get it,
and the public key (CURVE) of who has it there. It makes a pair of keys of its own, of which the public one goes
back through the stream, and asks; the kernel answers those whose keys its tasks have sent. Who reads the stream
learns public keys. See `nbdist.launch.start.handover`.
"""

from __future__ import annotations

import json
from typing import Any


class Collecting:
    """One connection file on its way here.

    Args:
      address: Where the kernel has it, such as `tcp://10.0.0.1:40123`.
      server_key: The public key there, in Z85.

    Attributes:
      public_key: The one that the kernel is to answer, in Z85.
    """

    def __init__(self, address: str, server_key: str) -> None:
        # Imported here: where orders come through ssh nothing of it is needed.
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
        """The connection file, once it is here; never waits."""
        if not self._socket.poll(0):
            return None
        found: dict[str, Any] = json.loads(self._socket.recv())
        return found

    def close(self) -> None:
        """Ends the connection, and the thread behind it: engines are forked from this process."""
        self._context.destroy(linger=0)
