"""ipyparallel's controller, as this package runs it."""

from __future__ import annotations

from typing import Any

from nbdist.machine.ports import reserved_ports

PORTS = 32
"""More than ipyparallel's controller takes (15 in 9.2), beside those for engines behind ssh."""


def run_controller(arguments: list[str]) -> None:
    """Runs the controller with this command line, until it is asked to end.

    By itself it takes ports that were free a moment ago, out of those that the system gives to whoever asks.
    Where one is gone when the relay for output is to listen on it, the controller goes on without that relay, and
    nothing that processes publish ever arrives.
    """
    from ipyparallel.controller import heartmonitor
    from ipyparallel.controller.app import IPController

    take_late_answers(getattr(heartmonitor, "HeartMonitor", None))
    with reserved_ports(PORTS) as ports:
        IPController.launch_instance(
            [*arguments, f"--IPController.ports={','.join(map(str, ports))}"]
        )


def take_late_answers(monitor: Any) -> bool:
    """Has the controller take an answer to any heartbeat as a sign of life, however long it was on its way.

    Private API: `ipyparallel.controller.heartmonitor.HeartMonitor.handle_pong(message)` (ipyparallel 9.2) takes
    answers to the last two beats only. With beats ten times a second, an engine that is more than 200 ms away
    would never be registered, and one at 100 ms would fill the log. Where it is gone, late answers are dropped
    as before.

    Args:
      monitor: The class; None where there is none.

    Returns:
      Whether it is so.
    """
    if not hasattr(monitor, "handle_pong"):
        return False

    def handle_pong(self: Any, message: list[bytes]) -> None:
        self.responses.add(message[0])

    monitor.handle_pong = handle_pong
    return True
