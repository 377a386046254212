"""What finds no room on a host is refused before it is sent."""

from __future__ import annotations

import pytest

from nbdist.contract.calls.values import Room
from nbdist.errors import ArrayError
from nbdist.session.values.flow import Need, refuse_too_large

HOSTS = {0: "h1", 1: "h1", 2: "h2", 3: "h2"}


def room(available: int | None, group: str = "0::/job") -> Room:
    return Room(wanted=(), available=available, group=group)


def need(process_id: int | None, nbytes: int, host: str = "h1") -> Need:
    return Need(
        host=host if process_id is None else HOSTS[process_id], process_id=process_id, nbytes=nbytes
    )


def refuse(rooms: dict[int, Room], *needs: Need, structure_bytes: int = 0) -> None:
    refuse_too_large(
        "'x'", rooms, needs, structure_bytes, hosts=HOSTS, host_text=lambda host: f"host {host}"
    )


def test_the_processes_of_a_host_need_their_memory_together() -> None:
    rooms = {0: room(200), 1: room(200), 2: room(100), 3: room(100)}
    with pytest.raises(ArrayError) as refused:
        refuse(rooms, *(need(p, 60) for p in rooms))
    assert str(refused.value) == (
        "'x' would take 120 B on host h2, for processes 2, 3, and 100 B of its memory are available. Nothing was "
        "sent. Push less, or to fewer processes with --on, or divide an array over them with --sharding."
    )
    refuse(rooms, *(need(p, 60) for p in rooms if p != 3))


def test_what_this_notebook_writes_for_others_is_counted_where_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbdist.session.values.flow.memory", lambda: {"available": 100})
    monkeypatch.setattr("nbdist.session.values.flow.group", lambda: "0::/notebook")
    refuse({0: room(1000)}, need(None, 100), need(0, 900))
    with pytest.raises(ArrayError, match="would take 101 B on host h1, for process 0, and 100 B"):
        refuse({0: room(1000)}, need(None, 101))
    monkeypatch.setattr("nbdist.session.values.flow.group", lambda: "0::/job")
    with pytest.raises(ArrayError, match="would take 102 B on host h1, for process 0, and 100 B"):
        refuse({0: room(1000)}, need(None, 2), need(0, 100))


def test_what_is_pickled_counts_for_each_process() -> None:
    refuse({0: room(100), 1: room(100)}, structure_bytes=50)
    with pytest.raises(ArrayError, match="would take 102 B on host h1"):
        refuse({0: room(100), 1: room(100)}, structure_bytes=51)


def test_processes_with_limits_of_their_own_are_counted_by_themselves() -> None:
    rooms = {0: room(100, "0::/task0"), 1: room(100, "0::/task1")}
    refuse(rooms, need(0, 60), need(1, 60))


def test_where_the_system_does_not_say_nothing_is_refused() -> None:
    refuse({0: room(None)}, need(0, 1 << 60))
