"""JAX's coordination service, in a process of its own beside the engines of the first host.

JAX runs it in process 0. There the service would end with that process, and could not be started again while
process 0 lives.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

READY = b"1"


def serve(address: str, processes: int, ready: int) -> None:
    """Serve until a signal ends this process.

    Args:
      address: The one `HOST:PORT` to listen on.
      processes: How many will join.
      ready: A descriptor that gets `READY` when the service listens.

    Raises:
      OSError: The port is taken.
    """
    refuse_taken(address)
    service = service_at(address, processes)
    os.write(ready, READY)
    os.close(ready)
    while service is not None:
        signal.pause()


def refuse_taken(address: str) -> None:
    """Raise `OSError` if somebody listens at an address.

    gRPC would listen there as well (SO_REUSEPORT), and the system would choose which of the two each process
    reaches.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host.strip("[]"), int(port)))


def service_at(address: str, processes: int) -> Any:
    """Return a running service.

    nbdist sees deaths itself, within a tenth of a second. JAX's heartbeats would end every process after a pause
    of all, so their timeout is one day.

    Private API: `jaxlib._jax.get_distributed_runtime_service` (0.10.0 to 0.12.0.1), which
    `jax.distributed.initialize` calls in process 0 alone, and which has no public equivalent.

    Raises:
      AttributeError: That function is gone.
    """
    from jax._src.lib import _jax

    return _jax.get_distributed_runtime_service(
        address,
        processes,
        heartbeat_timeout=HEARTBEAT_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        recoverable=True,
    )


HEARTBEAT_SECONDS = 24 * 60 * 60
SHUTDOWN_SECONDS = 3

if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
