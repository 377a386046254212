"""Groups of devices of which not all processes have come get addresses that refuse, for those that are missing."""

from __future__ import annotations

import socket
import struct
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.engine.frameworks.jax import private
from nbdist.engine.frameworks.jax.step.cut import Meetings, missing

OWN, OTHER = 40001, 40002


def address(port: int, host: str = "10.0.0.7") -> bytes:
    """As gloo writes it: the name of the host, a `sockaddr`, and what tells pairs of devices apart."""
    place = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host)
    return struct.pack("=Q", 2) + b"vm" + struct.pack("=Q", 136) + place + bytes(range(160))


class Store:
    """JAX's key-value store, as far as it is used; what is there is not written again."""

    def __init__(self) -> None:
        self.known = {"cpu:gloo/0,2048/0": address(OWN)}
        self.asked: list[str] = []

    def key_value_dir_get_bytes(self, folder: str) -> list[tuple[str, bytes]]:
        self.asked.append(folder)
        return list(self.known.items())

    def key_value_set_bytes(self, key: str, value: bytes) -> None:
        if key in self.known:
            raise RuntimeError("ALREADY_EXISTS")
        self.known[key] = value


def ended(monkeypatch: pytest.MonkeyPatch, store: Any) -> Meetings:
    joined = SimpleNamespace(get=lambda: SimpleNamespace(client=store))
    monkeypatch.setattr(private, "GLOBAL_STATE", joined)
    meetings = Meetings()
    meetings.end([OWN])
    for thread in threading.enumerate():
        if thread.name == "nbdist-meetings":
            thread.join()
    return meetings


def test_for_each_that_is_missing_there_is_an_address_of_the_same_shape_that_nobody_has() -> None:
    found = missing({"cpu:gloo/0,1,2048,2049/0": address(OWN)}, [39999, OWN])
    assert sorted(found) == [f"cpu:gloo/0,1,2048,2049/{n}" for n in (1, 2, 3)]
    assert set(found.values()) == {address(0, "0.0.0.0")}


def test_of_ipv6_as_well() -> None:
    place = struct.pack("=H", socket.AF_INET6) + struct.pack("!H", OWN) + bytes(4)
    value = b"vm" + place + socket.inet_pton(socket.AF_INET6, "fd00::7") + b"more"
    (found,) = missing({"cpu:gloo/0,2048/0": value}, [OWN]).values()
    assert found == b"vm" + struct.pack("=H", socket.AF_INET6) + bytes(22) + b"more"


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"cpu:gloo/0,2048/0": address(OWN), "cpu:gloo/0,2048/1": address(OTHER)},  # all are there
        {"cpu:gloo/2048,4096/0": address(OTHER)},  # of other processes
        {"cpu:gloo/0,2048/rank": address(OWN)},
        {"cpu:gloo/0,2048/0": b"of another kind"},
    ],
)
def test_where_this_process_waits_for_nobody_nothing_is_written(known: dict[str, bytes]) -> None:
    assert missing(known, [OWN]) == {}


def test_they_are_written_once_and_what_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    assert ended(monkeypatch, store).ended
    assert store.asked == ["cpu:gloo"]
    assert store.known["cpu:gloo/0,2048/0"] == address(OWN)
    assert store.known["cpu:gloo/0,2048/1"] == address(0, "0.0.0.0")
    assert not ended(monkeypatch, store).ended


def test_another_process_may_be_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    known = list(store.known.items())
    monkeypatch.setattr(store, "key_value_dir_get_bytes", lambda folder: known)
    store.known["cpu:gloo/0,2048/1"] = address(OTHER)
    assert ended(monkeypatch, store).ended
    assert store.known["cpu:gloo/0,2048/1"] == address(OTHER)


class Gone(Store):
    def key_value_dir_get_bytes(self, folder: str) -> list[tuple[str, bytes]]:
        raise RuntimeError("UNAVAILABLE")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("store", [None, object(), Gone()])
def test_without_a_coordinator_that_can_do_it_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    assert not ended(monkeypatch, store).ended
