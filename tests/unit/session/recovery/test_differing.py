"""Comparison of what processes have sent: how much, arrays it was given, programs on some of the devices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nbdist.contract.calls.stepping import Labels, Sent
from nbdist.session.recovery.compared import differing, differing_labels, differing_parts
from tests.builders.engines import sent, trail


def state(programs: int, *, before: int = 0, generation: int = 1) -> Sent:
    """What a process says that has sent so many programs since a proof, and so many before it."""
    return sent(programs, serial=before + programs, generation=generation)


def test_who_has_sent_how_many_programs_is_said() -> None:
    assert differing({0: state(28), 1: state(14), 2: state(28)}) == (
        "the processes have sent different numbers of programs to their devices: process 1 sent 14, "
        "processes 0, 2 sent 28"
    )


def test_who_has_sent_nothing_is_said_in_a_word() -> None:
    said = differing({0: state(1), 1: state(0)})
    assert said is not None and said.endswith("process 1 sent none, process 0 sent 1")


def test_counts_since_different_proofs_are_brought_to_one() -> None:
    assert differing({0: state(0, before=103), 1: state(3, before=100)}) is None
    said = differing({0: state(0, before=103), 1: state(5, before=100)})
    assert said is not None and said.endswith("process 0 sent 3, process 1 sent 5")


def test_processes_that_have_counted_anew_at_different_proofs_differ() -> None:
    said = differing({0: state(0, generation=2), 1: state(3, before=100)})
    assert said == "the processes were not found to be in step by the same proof"


def labels(*given: str, name: str = "total() 1") -> Labels:
    return Labels(labels=(name,) * len(given), kinds=(None,) * len(given), given=given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("5: 10 float32[16]", "5: 6 float32[16]"),
            "array 10 that the cell made, float32[16], on process 0, array 6 that the cell made, float32[16], "
            "on process 1",
        ),
        (("0: float32[16]", "0: float32[8]"), "float32[16] on process 0, float32[8] on process 1"),
        (
            ("5: 1 2 3 int32[8] int32[8] int32[8]", ""),
            "arrays 1–3 that the cell made, int32[8], int32[8], int32[8], on process 0, none that the cell made "
            "on process 1",
        ),
    ],
)
def test_a_program_that_was_given_different_arrays_is_said_with_them(
    given: tuple[str, str], said: str
) -> None:
    text = differing_labels({p: labels("", one) for p, one in enumerate(given)})
    assert text == f"the processes have computed total() of different arrays: {said}"
    library = {p: labels(one, name="_reduce_sum 9") for p, one in enumerate(given)}
    assert "computed _reduce_sum of" in (differing_labels(library) or "")


def test_helpers_in_another_order_with_the_same_arrays_are_not_said_to_differ() -> None:
    orders = ("gather 1", "reduce 2"), ("reduce 2", "gather 1")
    given = ("5: 1 int32[8]", "5: 2 int32[8]")
    answers = {
        p: Labels(labels=names, kinds=(None, None), given=given[:: 1 - 2 * p])
        for p, names in enumerate(orders)
    }
    assert differing_labels(answers) is None


Parts = Mapping[str, tuple[int, int]]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (({"0,2/0,1": (6, 66)}, {"0,2/0,1": (4, 44)}, {}), "numbers of programs"),
        (({"0,2/0,1": (6, 66)}, {}, {}), "process 0 sent 6, process 1 sent none"),
        (({"0,2/0,1": (6, 66)}, {"0,2/0,1": (6, 67)}, {}), "different programs to the devices of"),
        (({"0,2/0,1": (6, 66)}, {"0,2/0,1": (6, 66)}, {}), None),
        (({}, {}, {"2,3/1,2": (1, 1)}), "devices of processes 1, 2 alone: process 1 sent none"),
    ],
)
def test_programs_on_some_devices_are_compared_among_the_processes_of_these(
    parts: tuple[Parts, ...], said: str | None
) -> None:
    text = differing_parts({p: trail(sent(), parts=one) for p, one in enumerate(parts)})
    assert text is None if said is None else said in (text or "")


def test_programs_of_different_cells_on_some_devices_are_not_compared() -> None:
    states = {p: trail(sent(), parts={"0,2/0,1": (p, 5)}, run=p) for p in (0, 1)}
    assert differing_parts(states) is None
