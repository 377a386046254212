"""The introduction of an agent: the facts about its host that it sends before it gets more orders."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from nbdist.agent.sync import FOLDER
from nbdist.contract.checkup import Checkup
from nbdist.contract.events import Host
from nbdist.contract.lines import Events
from nbdist.contract.orders import Assignment
from nbdist.contract.wire import decode
from nbdist.machine import checkup
from nbdist.machine.ports import ReservedPorts, own_address
from nbdist.version import __version__


class Introduction:
    """The first event of an agent, and a listener for other hosts that try whether they reach this one.

    Args:
      events: Gets the event.
      reserved: The agent's; gets the ports on which its processes are to serve.
    """

    def __init__(self, events: Events, reserved: ReservedPorts) -> None:
        self._events = events
        self._reserved = reserved
        self._listener: socket.socket | None = None

    def say(self, assignment: Assignment, folder: str) -> None:
        """Send the facts that the kernel needs before it can give more orders.

        Args:
          assignment: The agent's assignment.
          folder: The session's private folder here.
        """
        address = address_towards(assignment.controller_address)
        checks = None
        if assignment.checks is not None:
            checks = decode(Checkup, checkup.checkup(dict(assignment.checks)))
            if address:
                self._listener = checkup.listen(address)
        self._events.send(
            Host(
                host=socket.gethostname(),
                pid=os.getpid(),
                nbdist=__version__,
                folder=folder,
                cwd=str(Path.cwd()),
                address=address,
                listening=self._listener.getsockname()[1] if self._listener else None,
                ports=tuple(self._reserved.reserve(assignment.ports)),
                checks=checks,
            )
        )

    def stop_listening(self) -> None:
        """Close the listener; a second call does nothing."""
        if self._listener:
            self._listener.close()
            self._listener = None


def address_towards(controller: str | None) -> str | None:
    """Return this host's address towards the controller; if that is a loopback, the one where ssh came in."""
    if controller is None:
        return None
    if not controller.startswith("127."):
        return own_address(controller)
    # `CLIENT PORT SERVER PORT`, of ssh(1); where that is no IPv4, on the way to anywhere outside.
    came_in = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    return (own_address(came_in[0]) if came_in else None) or own_address("192.0.2.1")


def enter(cwd: str, copy: str | None, folder: str) -> None:
    """Go to the working folder, or to its copy if this host has no such folder.

    Args:
      cwd: The working folder.
      copy: The name of its copy below the session's folder; None: there is none.
      folder: The session's private folder here.

    Raises:
      OSError: There is neither.
    """
    before = os.getcwd()  # noqa: PTH109 - as `python -m` has it
    try:
        os.chdir(cwd)
    except OSError:
        if copy is None:
            raise
        made = Path(folder, FOLDER, copy)
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(made)
    # The folder of the start: the kernel's on this machine, the home folder over ssh.
    if sys.path[:1] == [before]:
        sys.path[0] = str(Path.cwd())
