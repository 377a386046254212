"""What finds no room on a host is refused before it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.errors import ArrayError
from nbdist.values.room import refuse_too_large

HOSTS = {0: "h1", 1: "h1", 2: "h2", 3: "h2"}


def room(needed: int, available: int | None, group: str = "0::/job") -> dict[str, Any]:
    return {"needed": needed, "available": available, "group": group}


def refuse(rooms: dict[int, dict[str, Any]], structure_bytes: int = 0) -> None:
    refuse_too_large(
        "'x'", rooms, structure_bytes, hosts=HOSTS, host_text=lambda host: f"host {host}"
    )


def test_the_processes_of_a_host_need_their_memory_together() -> None:
    rooms = {0: room(60, 200), 1: room(60, 200), 2: room(60, 100), 3: room(60, 100)}
    with pytest.raises(ArrayError) as refused:
        refuse(rooms)
    assert str(refused.value) == (
        "'x' would take 120 B on host h2, for processes 2, 3, and 100 B of its memory are available. Nothing was "
        "sent. Push less, or to fewer processes with --on, or divide an array over them with --sharding."
    )
    refuse({p: one for p, one in rooms.items() if p != 3})


def test_what_is_pickled_counts_for_each_process() -> None:
    refuse({0: room(0, 100), 1: room(0, 100)}, structure_bytes=50)
    with pytest.raises(ArrayError, match="would take 102 B on host h1"):
        refuse({0: room(0, 100), 1: room(0, 100)}, structure_bytes=51)


def test_processes_with_limits_of_their_own_are_counted_by_themselves() -> None:
    refuse({0: room(60, 100, "0::/task0"), 1: room(60, 100, "0::/task1")})


def test_where_the_system_does_not_say_nothing_is_refused() -> None:
    refuse({0: room(1 << 60, None)})
