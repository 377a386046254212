"""Which arrays hold pieces that do not belong together, from what each process says of its own."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.calls.stepping import Origin, Trail, Versions
from nbdist.session.recovery.compared import Mixed, common_serial, crossed, disagreeing
from tests.builders import engines
from tests.builders.engines import trail

LOST = None


def said(unnamed: Any = (), **versions: int | None) -> Versions:
    """What a process answers of arrays that programs of the second back end have computed."""
    origins = {
        path: None if serial is None else (2, serial, "0") for path, serial in versions.items()
    }
    hidden = tuple(((2, serial, "0"), count) for serial, count in dict(unnamed).items())
    return Versions(generation=2, versions=origins, reasons={}, unnamed=hidden)


def elsewhere(said: Versions, **origins: Origin) -> Versions:
    """The same, with other origins of some arrays."""
    return structs.replace(said, versions={**said.versions, **origins})


def paths(answers: dict[int, Versions], **options: int) -> list[str]:
    return list(disagreeing(answers, **options).paths)


def test_pieces_of_one_program_belong_together() -> None:
    assert disagreeing({0: said(w=3, b=4), 1: said(w=3, b=4)}) == Mixed()


def test_pieces_of_two_programs_do_not() -> None:
    assert paths({0: said(w=3, b=4), 1: said(w=3, b=5)}) == ["b"]


def test_pieces_of_two_outputs_or_of_two_back_ends_do_not() -> None:
    answers = {
        0: elsewhere(said(w=3, b=4), w=(2, 3, "1")),
        1: elsewhere(said(w=3, b=4), b=(1, 4, "0")),
    }
    assert paths(answers) == ["b", "w"]


def test_a_value_that_could_not_be_read_on_one_process_is_lost_on_all() -> None:
    assert paths({0: said(w=3), 1: said(w=LOST)}) == ["w"]
    assert paths({0: said(w=LOST), 1: said(w=LOST)}) == ["w"]
    assert paths({0: said(), 1: said(w=LOST)}) == ["w"]


def test_a_name_that_only_one_process_has_is_none_to_be_lost() -> None:
    assert disagreeing({0: said(w=3), 1: said()}) == Mixed()


def test_nobody_disagrees_alone_or_about_nothing() -> None:
    assert disagreeing({}) == Mixed()
    assert disagreeing({0: said()}) == Mixed()
    assert disagreeing({0: said({3: 2}, w=3)}) == Mixed()


def test_three_processes_of_which_one_differs() -> None:
    assert paths({0: said(w=3), 1: said(w=3), 2: said(w=2)}) == ["w"]


def test_names_come_in_order() -> None:
    assert paths({0: said(b=1, a=1, c=1), 1: said(c=2, b=2, a=2)}) == ["a", "b", "c"]


def test_what_came_after_the_last_common_program_is_lost_though_all_agree() -> None:
    answers = {0: said({5: 1}, w=3, b=4), 1: said({5: 1}, w=3, b=4)}
    assert disagreeing(answers, common=3) == Mixed(("b",), ((2, 5, "0"),))
    assert disagreeing(answers, common=5) == Mixed()


def test_what_a_back_end_of_before_computed_is_not_after_a_program_of_this_one() -> None:
    answers = {p: elsewhere(said(w=9), w=(1, 9, "0")) for p in (0, 1)}
    assert disagreeing(answers, common=3) == Mixed()


def test_of_arrays_without_a_path_all_must_have_as_many_of_each_origin() -> None:
    assert disagreeing({0: said({3: 2, 4: 1}), 1: said({3: 2, 4: 1})}) == Mixed()
    mixed = disagreeing({0: said({3: 2, 4: 1}), 1: said({3: 1, 5: 1})})
    assert mixed == Mixed((), ((2, 3, "0"), (2, 4, "0"), (2, 5, "0")))


def sent(serial: int, programs: int, *checksums: int) -> Trail:
    return trail(engines.sent(programs, serial=serial), *checksums)


@pytest.mark.parametrize(
    ("states", "common"),
    [
        ([], 0),
        ([sent(7, 0), sent(7, 0)], 7),
        ([sent(9, 2, 11, 12), sent(9, 2, 11, 12)], 9),
        ([sent(9, 2, 11, 12), sent(9, 2, 11, 13)], 8),
        ([sent(9, 2, 11, 12), sent(9, 2, 10, 12)], 9),  # checksums are over all names up to one
        ([sent(9, 2, 11, 12), sent(8, 1, 11)], 8),
        ([sent(9, 2, 11, 12), sent(7, 0)], 7),
        ([sent(9, 2, 21, 22), sent(9, 2, 11, 12)], 7),
        ([sent(5000, 5000, 8, 9), sent(5000, 5000, 8, 9)], 5000),
        ([sent(5000, 5000, 8, 9), sent(4000, 4000, 6, 7)], 0),
    ],
)
def test_the_last_program_that_all_have_sent_is_found(states: Any, common: int) -> None:
    assert common_serial(states) == common


@pytest.mark.parametrize(
    ("states", "may_be"),
    [
        ([sent(9, 2, 11, 12), sent(9, 2, 11, 12)], False),
        ([sent(9, 2, 11, 12), sent(8, 1, 11)], False),
        ([sent(9, 2, 11, 12), sent(9, 2, 11, 13)], True),
        ([sent(9, 2, 11, 12), sent(8, 1, 21)], True),
        ([trail(engines.sent(), parts={"0,2/0,1": (1, 7)}), trail(engines.sent())], True),
    ],
)
def test_numbers_may_be_wrong_where_a_process_has_sent_others_not_where_it_has_sent_fewer(
    states: Any, may_be: bool
) -> None:
    assert crossed(states) is may_be
