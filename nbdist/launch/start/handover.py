"""Transfer of the connection file for engines to the tasks of a job, outside of the stream that leads to them.

See `nbdist.agent.handover`, the other end. The file is encrypted with CURVE, and goes only to clients with a key
that a task has sent through the job's stream.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Set
from typing import Any

import zmq
from zmq.auth import CURVE_ALLOW_ANY
from zmq.auth.thread import ThreadAuthenticator

from nbdist.contract.orders import Collect
from nbdist.launch.model.progress import POLL_SECONDS
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

POLL_MS = int(POLL_SECONDS * 1000)


class Handover:
    """Server for the tasks, on a thread of its own, from entering until leaving.

    Args:
      connection: ipyparallel's connection file for engines; the server listens at the address that it names.
      admitted: The public keys of the tasks, in Z85, as far as they are known; more may be added meanwhile.
    """

    def __init__(self, connection: Mapping[str, Any], admitted: Set[str]) -> None:
        self._content = json.dumps(dict(connection)).encode()
        self._interface = str(connection["interface"])
        self._admitted = admitted
        self._stopped = threading.Event()
        self._guard = MessageGuard("A task that asks for the connection file", logger)
        self._thread = threading.Thread(target=self._serve, name="nbdist-handover", daemon=True)

    def __enter__(self) -> Handover:
        public, secret = zmq.curve_keypair()
        # A context of its own, since an authenticator serves a whole context.
        self._context = zmq.Context()
        self._keys = ThreadAuthenticator(self._context)
        self._keys.start()
        # Any client may connect; what it gets depends on its key, which may become known here a moment later.
        self._keys.configure_curve(domain="*", location=CURVE_ALLOW_ANY)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.curve_server = True
        self._socket.curve_publickey, self._socket.curve_secretkey = public, secret
        port = self._socket.bind_to_random_port(self._interface)
        self.order = Collect(address=f"{self._interface}:{port}", server_key=public.decode())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._keys.stop()
        self._context.destroy(linger=0)

    def _serve(self) -> None:
        waiting: dict[bytes, str] = {}
        while not self._stopped.is_set():
            with self._guard:
                if self._socket.poll(POLL_MS):
                    peer, asked = self._socket.recv_multipart(copy=False)
                    # The key that the client has proven to own; see `Authenticator.curve_user_id`.
                    waiting[peer.bytes] = str(asked.get("User-Id"))
                for known in [peer for peer, key in waiting.items() if key in self._admitted]:
                    del waiting[known]
                    self._socket.send_multipart([known, self._content])
