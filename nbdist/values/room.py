"""Whether values fit into the memory of the machines that they are to go to, asked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nbdist.contract.calls.values import Room
from nbdist.errors import ArrayError
from nbdist.machine.checkup import group, memory
from nbdist.quantities import bytes_text, processes_text
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """How much memory one process takes.

    Attributes:
      host: Where.
      process_id: Which; None: this notebook, for processes on its machine.
      nbytes: How much.
    """

    host: str
    process_id: int | None
    nbytes: int


def refuse_too_large(
    names: str,
    rooms: Mapping[int, Room],
    needs: Iterable[Need],
    structure_bytes: int,
    *,
    hosts: Mapping[int, str],
    host_text: Callable[[str], str],
) -> None:
    """Lets pass what finds room on every host.

    Args:
      names: Of what is pushed.
      rooms: Of all processes that get it.
      needs: What they, and this notebook for those on its machine, take of memory for arrays.
      structure_bytes: Of what each process gets besides.
      hosts: Of the processes.
      host_text: Names a host.

    Raises:
      ArrayError: What has the same limit on one host needs more than is available there.
    """
    needed: dict[tuple[str, str], int] = {}
    available: dict[tuple[str, str], list[int]] = {}
    apart = (Need(host=hosts[p], process_id=p, nbytes=structure_bytes) for p in rooms)
    for need in (*needs, *apart):
        room = _here() if need.process_id is None else rooms[need.process_id]
        key = (need.host, room.group)
        needed[key] = needed.get(key, 0) + need.nbytes
        if room.available is not None:
            available.setdefault(key, []).append(room.available)
    for (host, limit), nbytes in needed.items():
        known = available.get((host, limit))
        if known and nbytes > min(known):
            ids = [p for p in rooms if hosts[p] == host]
            raise ArrayError(
                f"{names} would take {bytes_text(nbytes)} on {host_text(host)}, for {processes_text(ids)}, and "
                f"{bytes_text(min(known))} of its memory are available. Nothing was sent. Push less, or to fewer "
                f"processes with {option('on')}, or divide an array over them with {option('sharding')}."
            )


def _here() -> Room:
    return Room(wanted=(), available=memory()["available"], group=group())


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
