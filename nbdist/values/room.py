"""Whether values fit into the memory of the machines that they are to go to, asked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdist.engine.checkup import memory
from nbdist.errors import ArrayError
from nbdist.quantities import bytes_text, processes_text

Rooms = Mapping[int, Mapping[str, Any]]
"""What each process has answered; see `nbdist.engine.values.incoming.Incoming.describe`."""


def refuse_too_large(
    names: str,
    rooms: Rooms,
    structure_bytes: int,
    *,
    hosts: Mapping[int, str],
    host_text: Callable[[str], str],
) -> None:
    """Lets pass what finds room on every host.

    Args:
      names: Of what is pushed.
      rooms: Of all processes that get it.
      structure_bytes: Of what each process gets besides arrays.
      hosts: Of the processes.
      host_text: Names a host.

    Raises:
      ArrayError: The processes of one host together, as far as they have the same limit, need more than is
        available there.
    """
    together: dict[tuple[str, str], list[int]] = {}
    for process_id, room in rooms.items():
        together.setdefault((hosts[process_id], room["group"]), []).append(process_id)
    for (host, _), ids in together.items():
        needed = sum(rooms[p]["needed"] + structure_bytes for p in ids)
        known = [rooms[p]["available"] for p in ids if rooms[p]["available"] is not None]
        if known and needed > min(known):
            raise ArrayError(
                f"{names} would take {bytes_text(needed)} on {host_text(host)}, for {processes_text(ids)}, and "
                f"{bytes_text(min(known))} of its memory are available. Nothing was sent. Push less, or to fewer "
                "processes with --on, or divide an array over them with --sharding."
            )


def refuse_too_large_here(expression: str, nbytes: int) -> None:
    """Lets pass what finds room in this notebook's memory.

    Raises:
      ArrayError: It is larger than what is available.
    """
    available = memory()["available"]
    if available is not None and nbytes > available:
        raise ArrayError(
            f"{expression!r} is {bytes_text(nbytes)} in whole, and {bytes_text(available)} of memory are "
            "available where this notebook runs: not pulled. Pull a part of it."
        )
