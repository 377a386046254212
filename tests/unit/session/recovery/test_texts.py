"""What a person reads when processes were not in step, or have been brought there."""

from __future__ import annotations

import pytest

from nbdist.monitor.states import Known, trouble
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.supervisor import timeout_error
from nbdist.session.recovery.compared import differing
from nbdist.session.recovery.repair import Repaired
from tests.builders.engines import sent
from tests.builders.outcomes import stands

FACTS = ProcessFacts(
    workers=frozenset({0, 1}), advice="%dist_recover brings them in step.", proves=True
)
LATE = {0: stands(0, "interrupted"), 1: stands(1, "finished")}


def state(programs: int, *, before: int = 0, generation: int = 1) -> dict[str, object]:
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


def test_the_names_of_what_is_lost_end_their_line_and_what_it_means_follows() -> None:
    stale = ("it (through a tuple_iterator)",)
    first, second, third = Repaired(1.24, lost=("q", "ws"), stale=stale).text().splitlines()
    assert first == "in step again after 1.2 s; lost: q, ws"
    assert "error until it is assigned again" in second
    assert stale[0] in third
    assert Repaired(1.24).text() == "in step again after 1.2 s; all variables kept"


def test_of_parts_that_died_with_a_process_nothing_else_is_said() -> None:
    died = Repaired(1.24, lost=("v", "w"), in_part={"v": "f32[8]", "w": ""}, new=(1,))
    assert died.text().splitlines()[1] == (
        "   parts of v (f32[8]), w were only on process 1, which has ended: using it is an error until it is "
        "assigned again; all else is kept"
    )
    both = Repaired(1.24, lost=("w", "y"), in_part={"w": "f32[8]"}, new=(1, 2), whole=False)
    assert both.text().splitlines()[1:] == [
        "   a part of w (f32[8]) was only on processes 1, 2, which have ended",
        "   not computed on all processes: y",
        "   using it is an error until it is assigned again",
    ]


def test_what_could_not_be_read_is_not_said_to_be_uncomputed() -> None:
    unread = Repaired(1.24, lost=("w",), unread={"w": "its values could not be read: no memory"})
    assert unread.text().splitlines()[1:] == [
        "   using it is an error until it is assigned again; all else is kept",
        "   w: its values could not be read: no memory",
    ]


def test_the_view_says_the_same_in_sentences() -> None:
    unread = {"new['hidden']": "its values could not be read"}
    repaired = Repaired(1.24, lost=("q", "ws", "new['hidden']"), unread=unread)
    known = Known(repaired=repaired.text())
    (notice,) = trouble((), known, time_s=0.0)
    assert notice.title == "In step again after 1.2 s:"
    assert notice.text.startswith("lost: q, ws, new['hidden']; ")
    assert notice.text.endswith("; new['hidden']: its values could not be read.")


@pytest.mark.parametrize(
    ("facts", "ending"),
    [
        (FACTS, "was interrupted; variables are kept."),
        (FACTS.recovered("in step again after 1.2 s; lost: q"), "was interrupted."),
        (
            ProcessFacts(workers=FACTS.workers, advice=FACTS.advice, since=3, why="stuck"),
            "was interrupted; the session is out of step. %dist_recover brings them in step.",
        ),
    ],
    ids=["in step", "repaired", "out of step"],
)
def test_a_cell_cut_off_says_what_is_kept_only_where_that_is_so(
    facts: ProcessFacts, ending: str
) -> None:
    said = str(timeout_error(LATE, 2.0, facts))
    assert said == f"process 0 did not finish the cell within 2.0 s (--timeout) and {ending}"
