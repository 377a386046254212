"""When copies of arrays are due, which parts are copied, to whom, and what goes back together."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.calls.namespace import CopiesOffer, NamespaceArray, RoundOffer
from nbdist.contract.calls.values import Box
from nbdist.session.values.copies import (
    Copies,
    CopyRound,
    KeptCopies,
    keeper_of,
    missing,
    not_alike,
    together,
)

HERE = dict.fromkeys(range(3), "h")


def array(key: str, serial: int, *pieces: Box, kept: tuple[Box, ...] = ()) -> NamespaceArray:
    return NamespaceArray(
        key=key,
        dtype="float32",
        shape=(6,),
        spans=True,
        origin=(1, serial, "0"),
        pieces=pieces,
        kept=kept,
    )


def thirds(key: str, serial: int, process: int, **more: Any) -> NamespaceArray:
    return array(key, serial, ((2 * process, 2 * process + 2),), **more)


def offers(*arrays: list[NamespaceArray]) -> dict[int, CopiesOffer]:
    return {p: CopiesOffer(arrays=tuple(its)) for p, its in enumerate(arrays)}


@pytest.mark.parametrize(
    ("process", "hosts", "keeper"),
    [
        (0, HERE, 1),
        (2, HERE, 0),
        (0, {0: "a", 1: "a", 2: "b", 3: "b"}, 2),
        (1, {0: "a", 1: "a", 2: "b", 3: "b"}, 2),
        (3, {0: "a", 1: "a", 2: "b", 3: "b"}, 0),
    ],
)
def test_the_next_process_on_another_host_keeps_a_copy(
    process: int, hosts: dict[int, str], keeper: int
) -> None:
    assert keeper_of(process, hosts) == keeper


def test_a_part_that_several_have_is_not_copied() -> None:
    whole: Box = ((0, 6),)
    assert missing(offers(*[[array("w", 1, whole)]] * 3), HERE) == []


def test_each_part_that_one_has_alone_goes_to_another() -> None:
    wanted = missing(offers(*[[thirds("w", 1, p)] for p in range(3)]), HERE)
    assert [(w.holder, w.to, w.copied.box) for w in wanted] == [
        (0, 1, ((0, 2),)),
        (1, 2, ((2, 4),)),
        (2, 0, ((4, 6),)),
    ]


def test_what_is_kept_of_the_same_array_is_not_sent_again() -> None:
    kept = {1: ((0, 2),), 2: ((2, 4),), 0: ((4, 6),)}
    assert missing(offers(*[[thirds("w", 1, p, kept=(kept[p],))] for p in range(3)]), HERE) == []


def test_two_names_of_one_array_are_sent_once() -> None:
    wanted = missing(offers(*[[thirds("v", 1, p), thirds("w", 1, p)] for p in range(3)]), HERE)
    assert len(wanted) == 3


def test_two_names_of_one_array_are_not_two_processes_that_have_it() -> None:
    """A process offers such an array under each name, each time with the path of the first."""
    wanted = missing(offers(*[[thirds("v", 1, p), thirds("v", 1, p)] for p in range(3)]), HERE)
    assert [(w.holder, w.to) for w in wanted] == [(0, 1), (1, 2), (2, 0)]


def test_arrays_of_different_programs_under_one_name_are_different() -> None:
    wanted = missing(offers([array("w", 1, ((0, 6),))], [array("w", 2, ((0, 6),))]), HERE)
    assert [(w.holder, w.to) for w in wanted] == [(0, 1), (1, 2)]


def round_of(then: dict[str, int], now: dict[str, int], whole: str | None = None) -> RoundOffer:
    return RoundOffer(
        arrays=tuple(array(name, serial, ((0, 6),)) for name, serial in then.items()),
        now={name: (1, serial, "0") for name, serial in now.items()},
        whole=tuple(then if whole is None else whole.split()),
    )


THEN = {"w": 1, "m": 2, "rows": 3}


def test_with_a_lost_array_that_has_changed_since_all_goes_back_that_has() -> None:
    offer = round_of(THEN, {"w": 8, "m": 9, "rows": 3})
    group, older, why = together({0: offer, 1: offer}, ["w"])
    assert group.keys() == {"w", "m"} and older and why is None


def test_what_has_changed_on_one_process_alone_goes_back_as_well() -> None:
    one, other = round_of(THEN, {**THEN, "w": 8}), round_of(THEN, {**THEN, "w": 8, "m": 7})
    group, older, _ = together({0: one, 1: other}, ["w"])
    assert group.keys() == {"w", "m"} and older


def test_one_that_has_not_changed_since_takes_nothing_back_with_it() -> None:
    offer = round_of(THEN, {"w": 8, "m": 9, "rows": 3})
    group, older, why = together({0: offer, 1: offer}, ["rows"])
    assert group.keys() == {"rows"} and not older and why is None


@pytest.mark.parametrize("lost", ["late", "shape"])
def test_nothing_goes_back_for_what_was_not_copied_or_is_another_array_now(lost: str) -> None:
    then = {**THEN, "shape": 4}
    offer = round_of(then, {"w": 9, "m": 9, "rows": 3})
    assert together({0: offer}, [lost]) == ({}, False, None)


def test_nothing_goes_back_where_one_process_lacks_a_part() -> None:
    now = {"w": 8, "m": 9, "rows": 3}
    found = together({0: round_of(THEN, now), 1: round_of(THEN, now, whole="w rows")}, ["w"])
    assert found == ({}, False, "of m there is no copy on every process")


def own(key: str, digest: str) -> NamespaceArray:
    return structs.replace(array(key, 0, ((0, 6),)), spans=False, origin=(0, 0, f"own {digest}"))


def test_what_is_each_process_s_own_is_sent_to_nobody() -> None:
    assert missing(offers([own("w", "x")], [own("w", "y")], []), HERE) == []


def test_of_what_is_each_process_s_own_only_what_all_have_alike_is_part_of_a_round() -> None:
    same, also = own("same", "x"), thirds("spread", 1, 0)
    found = offers(
        [same, own("differs", "x"), also, own("mixed", "x")],
        [same, own("differs", "y"), also, thirds("mixed", 1, 1), own("one", "x")],
    )
    assert not_alike(found) == ["differs", "mixed", "one"]


def test_copies_are_due_once_in_so_many_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    copies = Copies(30)
    assert not copies.due
    now[0] = 130.0
    assert copies.due
    copies.tried()
    assert not copies.due
    now[0] = 160.5
    assert copies.due
    assert not Copies().due and Copies(0).due


@pytest.mark.parametrize(
    ("kept", "size"),
    [({0: 3 << 20, 1: 3 << 20}, "3 MB"), ({0: 1 << 20, 1: 2 << 20}, "1 MB to 2 MB")],
)
def test_how_old_they_are_and_what_they_take(
    kept: dict[int, int], size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 64.0)
    copies = Copies(30)
    assert copies.text() == "no copies were made yet"
    copied = CopyRound(number=1, arrays=12, sent=0, kept=kept)
    copies.kept = KeptCopies(copied=copied, cell=12, at=30.0, seconds=0.1)
    assert (
        copies.text()
        == f"copies of 12 arrays, made after cell 12, 34.0 s ago, in 0.1 s: {size} on each process"
    )
    assert Copies().text() is None
