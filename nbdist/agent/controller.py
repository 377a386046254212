"""ipyparallel's controller, as this package runs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from nbdist.machine.folder import connections, write_private
from nbdist.machine.ports import ReservedPorts, is_taken

PORTS = 32
"""More than ipyparallel's controller takes (15 in 9.2), besides the ports for engines behind ssh."""

AGAIN = ("--IPController.reuse_files=True", "--IPController.restore_engines=True")
"""As `ipcontroller --restore`: ports and key from the connection files, engines from the file of their names."""

FREE_SECONDS = 3.0
"""How long the ports of an ended controller may take to become free: its children end a moment later."""

CHANNELS = (
    *("registration", "control", "mux", "task", "iopub", "notification"),
    *("hb_ping", "hb_pong", "broadcast"),
)
"""The channels whose ports a connection file lists (ipyparallel 9.2)."""


def run_controller(
    arguments: Sequence[str], *, folder: str, cluster_id: str, again: bool = False
) -> None:
    """Run the controller with this command line, until it is asked to end.

    All its sockets are encrypted (CURVE), on one machine too: without that, anybody who reaches a port of the
    loopback address is sent what cells print, and a few random bytes at the request port end a relay for good.

    By itself the controller takes ports that were free a moment ago, out of those that the system gives to any
    program. If the port for the output relay is gone by then, the controller goes on without that relay, and
    nothing that processes publish ever arrives.

    Args:
      arguments: The command line.
      folder: The session's private folder; ipyparallel's profile folder as well.
      cluster_id: Names the connection files in the folder.
      again: Take the place of a controller that has ended: listen at the same ports with the same keys, and know
        the engines that were registered, so that all sockets that were connected to it connect to this one.
    """
    from ipyparallel.controller import heartmonitor
    from ipyparallel.controller.app import IPController

    class Controller(IPController):
        """A controller that leaves the connection files to its successor; they are removed with the folder."""

        def cleanup_connection_files(self) -> None:
            """Do nothing."""

        def init_hub(self) -> None:
            """Make the hub, and keep the file of the engines' names as it was.

            ipyparallel (9.2) writes that file while it reads it, and with 0 as the next id. The controller after
            this one would give a new engine the id of another.
            """
            names = {path: path.read_bytes() for path in Path(folder, "log").glob("engines*.json")}
            super().init_hub()
            for path, content in names.items():
                path.write_bytes(content)

    take_late_answers(getattr(heartmonitor, "HeartMonitor", None))
    if again:
        refuse_taken_ports(folder, cluster_id)
        arguments = [*arguments, *AGAIN]
    os.environ.update(curve_keys(folder, again=again))
    with closing(ReservedPorts()) as reserved:
        ports = ",".join(map(str, reserved.reserve(PORTS)))
        Controller.launch_instance(
            [*arguments, "--IPController.enable_curve=True", f"--IPController.ports={ports}"]
        )


def curve_keys(folder: str, *, again: bool) -> dict[str, str]:
    """Return the controller's pair of keys (CURVE, in Z85) as ipyparallel's variables; keep it in a private file.

    Args:
      folder: The session's private folder.
      again: Whether to take the keys of the controller before this one.

    Raises:
      OSError: There are no earlier keys, or the new ones cannot be written.
    """
    import zmq

    path = Path(folder) / "security" / "controller-keys.json"
    if again:
        kept: dict[str, str] = json.loads(path.read_text())
        return kept
    public, secret = zmq.curve_keypair()
    keys = {"IPP_CURVE_PUBLICKEY": public.decode(), "IPP_CURVE_SECRETKEY": secret.decode()}
    write_private(path, keys)
    return keys


def refuse_taken_ports(folder: str, cluster_id: str) -> None:
    """End this process if another program listens at a port of the controller before this one.

    If a relay cannot listen, ipyparallel's controller would go on without it.

    Raises:
      SystemExit: Another program does; names the ports.
    """
    wanted = {
        (connection["interface"].rpartition("/")[2], port)
        for path in connections(folder, cluster_id)
        for connection in [json.loads(path.read_text())]
        for port in _ports(connection)
    }
    until = time.monotonic() + FREE_SECONDS
    while (taken := {port for host, port in wanted if is_taken(host, port)}) and (
        time.monotonic() < until
    ):
        time.sleep(0.05)
    if taken:
        raise SystemExit(
            f"Another program listens at {', '.join(map(str, sorted(taken)))}, where the controller before this "
            "one did, and where all processes are connected to."
        )


def _ports(connection: Mapping[str, Any]) -> list[int]:
    values = [connection.get(name) for name in CHANNELS]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [port for ports in lists for port in ports if isinstance(port, int)]


def take_late_answers(monitor: Any) -> bool:
    """Make the controller take an answer to any heartbeat as a sign of life, however long it was on its way.

    Private API: `ipyparallel.controller.heartmonitor.HeartMonitor.handle_pong(message)` (ipyparallel 9.2) takes
    answers to the last two beats only. With beats ten times a second, an engine that is more than 200 ms away
    would never be registered, and one at 100 ms would fill the log. Without that method nothing is changed, and
    late answers are dropped.

    Args:
      monitor: The class; None if there is none.

    Returns:
      Whether the controller takes late answers now.
    """
    if not hasattr(monitor, "handle_pong"):
        return False

    def handle_pong(self: Any, message: list[bytes]) -> None:
        self.responses.add(message[0])

    monitor.handle_pong = handle_pong
    return True
