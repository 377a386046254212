"""What tools return: bounded, as JSON carries it, and errors as data."""

from __future__ import annotations

import json

from nbdist.contract.snapshot import Array, NamedSharding, SingleDevice, Snapshot
from nbdist.errors import ProcessError, SessionError
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.tools.answers import Cell, Failure, arrays_of, bounded, failure_of, refused


def test_a_long_text_keeps_its_beginning_and_its_end_and_says_how_much_is_missing() -> None:
    text = "".join(str(number % 10) for number in range(1000))
    assert bounded(text, 1000) == (text, 0)
    short, left_out = bounded(text, 100)
    assert (short[:25], short[-75:], left_out) == (text[:25], text[-75:], 900)
    assert "900" in short[25:-75]
    assert bounded("abc", 0)[1] == 3


def test_arrays_are_listed_largest_first_and_one_without_its_mesh_hides_no_other() -> None:
    here = SingleDevice(device="0:0", memory_kind=None)
    unknown = NamedSharding(mesh="none", spec=(("x",),), unreduced=(), memory_kind=None)
    arrays = tuple(
        Array(path=path, shape=(size,), dtype="float32", nbytes=4 * size, sharding=sharding)
        for path, size, sharding in [("a", 1, here), ("b", 3, unknown), ("ab", 2, here)]
    )
    snapshot = Snapshot(
        session="s", sequence=1, time=0.0, state="idle", arrays=arrays, arrays_omitted=7
    )
    found = arrays_of(snapshot, find="", most=2)
    assert [one.path for one in found.arrays] == ["b", "ab"]
    assert (found.left_out, found.unreported) == (1, 7)
    assert [one.path for one in arrays_of(snapshot, find="a", most=9).arrays] == ["ab", "a"]
    assert "8 more arrays" in found.text()


def test_an_error_of_a_cell_names_process_host_line_and_cause_without_colors() -> None:
    first = ProcessOutcome(
        process_id=3, host="h2", outcome="raised", error="ValueError: empty", line=4, source="f()"
    )
    error = ProcessError("process 3 raised ValueError", (first,), "\x1b[31mTraceback\x1b[0m")
    assert failure_of(error) == Failure(
        code="ProcessError",
        message="process 3 raised ValueError",
        cause="ValueError: empty",
        process=3,
        host="h2",
        line=4,
        source="f()",
        details="Traceback",
    )


def test_a_refusal_is_the_only_entry_and_fails_the_command() -> None:
    answer = refused(SessionError("There is none."))
    plain = json.loads(json.dumps(answer.plain))
    assert (list(plain), plain["error"]["code"]) == (["error"], "SessionError")
    assert (answer.failed, answer.refused) == (True, True)
    assert "There is none." in answer.text


def test_a_failed_cell_is_an_answer_and_fails_the_command() -> None:
    error = failure_of(ValueError("no"))
    failed = Cell(cell=7, state="failed", says="", seconds=1.0, output="o", error=error).answer()
    assert (failed.failed, failed.refused) == (True, False)
    assert failed.plain["error"]["code"] == "ValueError"
    running = Cell(cell=7, state="running", says="cell 7 still runs", seconds=1.0).answer()
    assert (running.failed, running.text) == (False, "cell 7 still runs")
