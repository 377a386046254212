"""How pushed arrays are spread over hosts whose processes share memory, and where they lie in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nbdist.contract.calls import Done
from nbdist.contract.calls.values import (
    Join,
    Joined,
    MemoryAddress,
    Put,
    Ready,
    Room,
    Share,
    Shared,
    box,
)
from nbdist.engine.values.incoming import COMMON
from nbdist.errors import GoneError
from nbdist.session.values.flow import (
    ALIGNED_BYTES,
    MOST_OWN,
    OWN_BYTES,
    Spots,
    WantedPiece,
)
from nbdist.session.values.push import Push
from tests.builders.engines import Pending

HOSTS = {0: "h1", 1: "h1", 2: "h2", 3: "h2", 4: "h2"}
ROWS = [[[0, 100], [0, 64]]]


def far(process_id: int) -> MemoryAddress:
    """Of memory that a process elsewhere has made."""
    return MemoryAddress(pid=process_id, descriptor=0, name="far", nbytes=0)


def room(*wanted: Any) -> Room:
    """What a process answers that wants these parts of the one array."""
    return Room(wanted=(tuple(map(box, wanted)),), available=None, group="")


class Far:
    """Processes of which none shares memory with this one; of those on one host, `apart` share with nobody."""

    def __init__(self, apart: tuple[int, ...] = ()) -> None:
        self.apart = apart
        self.asked: list[tuple[str, int]] = []
        self.memories: dict[int, list[bytearray]] = {}
        self.joined: dict[int, int] = {}
        self.spots: dict[int, Any] = {}

    def where(self, process_id: int) -> str:
        return f"process {process_id}"

    def gone(self, process_id: int) -> None:
        return None

    def send(self, process_id: int, call: Any, *buffers: bytes) -> Pending:
        self.asked.append((call.NAME, process_id))
        return Pending(getattr(self, call.NAME)(process_id, call, *buffers))

    def share(self, process_id: int, call: Share) -> Shared:
        self.memories[process_id] = [bytearray(size) for size in call.sizes]
        self.spots[process_id] = call.spots
        return Shared(addresses=(far(process_id),))

    def join(self, process_id: int, call: Join) -> Joined:
        owner = call.addresses[0]
        if owner != far(owner.pid) or process_id in self.apart:
            return Joined(joined=False)
        self.memories[process_id], self.spots[process_id] = self.memories[owner.pid], call.spots
        return Joined(joined=True)

    def put(self, process_id: int, call: Put, data: bytes) -> Done:
        for one in call.stretches:
            end = one.at + one.nbytes
            self.memories[process_id][one.memory][one.at : end] = data[: one.nbytes]
            data = data[one.nbytes :]
        assert not data
        return Done()

    def ready(self, process_id: int, call: Ready, structure: bytes) -> Done:
        return Done()

    def array(self, process_id: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        memory, at = self.spots[process_id][0][0]
        return np.ndarray(shape, np.float32, self.memories[process_id][memory], offset=at)


def sent(processes: Far, wanted: dict[int, Any]) -> np.ndarray[Any, Any]:
    array = np.arange(200 * 64, dtype=np.float32).reshape(200, 64)
    rooms = {p: room(*its) for p, its in wanted.items()}
    push = Push(processes, [array], rooms, "token", hosts=HOSTS, timeout_s=60)  # type: ignore[arg-type]
    push.share()
    push.send(b"structure")
    push.close()
    return array


def puts(processes: Far) -> list[int]:
    return [p for name, p in processes.asked if name == "put"]


def test_an_array_goes_once_to_each_host() -> None:
    processes = Far()
    array = sent(processes, dict.fromkeys(HOSTS, ROWS))
    assert puts(processes) == [0, 2]
    for process_id in HOSTS:
        np.testing.assert_array_equal(processes.array(process_id, (100, 64)), array[:100])


def test_who_shares_with_nobody_gets_it_alone() -> None:
    processes = Far(apart=(1, 4))
    array = sent(processes, dict.fromkeys(HOSTS, ROWS))
    assert sorted(puts(processes)) == [0, 1, 2, 4]
    for process_id in HOSTS:
        np.testing.assert_array_equal(processes.array(process_id, (100, 64)), array[:100])


def test_an_owner_gets_what_the_others_of_its_host_want_and_no_more() -> None:
    processes = Far()
    wanted = {p: [[[40 * p, 40 * p + 40], [0, 64]]] for p in HOSTS}
    array = sent(processes, wanted)
    for p in HOSTS:
        np.testing.assert_array_equal(processes.array(p, (40, 64)), array[40 * p : 40 * p + 40])
    assert sum(map(len, processes.memories[0])) == 2 * 40 * 64 * 4


def test_what_each_process_takes_and_the_owner_for_all_is_named() -> None:
    processes = Far(apart=(4,))
    rooms = {p: room(*ROWS) for p in HOSTS}
    large, small = np.zeros((100, 64), np.float32), np.zeros((100, 64), np.uint8)
    for array, copied in ((large, 25600), (small, 6400)):
        push = Push(processes, [array], rooms, "token", hosts=HOSTS, timeout_s=60)  # type: ignore[arg-type]
        push.share()
        found = {(need.host, need.process_id, need.nbytes) for need in push.needs()}
        # Both are small: each process copies them out of what is shared.
        assert found == {(HOSTS[p], p, copied) for p in HOSTS}
        assert len(push.needs()) == 5 + 3
    huge = Push(
        processes,  # type: ignore[arg-type]
        [np.broadcast_to(np.float32(0), (100, 1 << 20))],
        {p: room([[0, 100], [0, 1 << 20]]) for p in HOSTS},
        "token",
        hosts=HOSTS,
        timeout_s=60,
    )
    groups = {0: (0, 1), 2: (2, 3), 4: (4,)}
    processes.share = lambda p, call: Shared(addresses=(far(p),))  # type: ignore[method-assign]
    processes.memories = {0: [], 2: []}
    huge.share()
    takes: dict[int | None, int] = {}
    for need in huge.needs():
        takes[need.process_id] = takes.get(need.process_id, 0) + need.nbytes
    assert takes == {p: 400 << 20 if p in groups else 0 for p in HOSTS}


def test_large_pieces_have_a_memory_of_their_own_and_no_more_than_so_many() -> None:
    large = [
        WantedPiece(array=n, bounds=[[0, 1]], nbytes=OWN_BYTES + n) for n in range(MOST_OWN + 3)
    ]
    small = [WantedPiece(array=1000 + n, bounds=[[0, 1]], nbytes=5) for n in range(3)]
    spots = Spots([*small, *large, *large])
    assert len(spots.sizes) == MOST_OWN + 1
    common = [*small, *large[:3]]
    assert [piece for piece in spots.pieces if spots.of(piece)[0] == COMMON] == [
        *reversed(large[:3]),
        *small,
    ]
    starts = sorted((spots.of(piece)[1], piece.nbytes) for piece in common)
    ends = [0, *(start + nbytes for start, nbytes in starts)]
    assert all(start % ALIGNED_BYTES == 0 for start, _ in starts)
    assert all(start >= end for (start, _), end in zip(starts, ends, strict=False))
    assert spots.sizes[COMMON] >= ends[-1]


def test_an_interrupt_or_an_end_gives_the_memory_back() -> None:
    class Near(Far):
        def join(self, process_id: int, call: Join) -> Joined:
            return Joined(joined=True)

    processes = Near()
    array = np.zeros(OWN_BYTES, np.uint8)
    rooms = {0: room([[0, OWN_BYTES]])}
    push = Push(processes, [array], rooms, "token", hosts=HOSTS, timeout_s=60)  # type: ignore[arg-type]
    push.share()
    held = list(push._mine)
    with pytest.raises(KeyboardInterrupt):
        push.send(b"", progress=interrupted)
    push.close()
    assert [memory.closed for memory in held] == [True, True]


def interrupted(done: int, total: int) -> None:
    raise KeyboardInterrupt


def test_a_process_that_ends_stops_the_writing() -> None:
    processes = SimpleNamespace(
        send=lambda p, call: Pending(Joined(joined=True)),
        gone=lambda p: "killed by SIGKILL",
        where=lambda p: f"process {p}",
    )
    rooms = {0: room([[0, 4]])}
    push = Push(processes, [np.zeros(4)], rooms, "token", hosts=HOSTS, timeout_s=60)  # type: ignore[arg-type]
    push.share()
    with pytest.raises(GoneError, match="killed by SIGKILL"):
        push.send(b"")
    push.close()
