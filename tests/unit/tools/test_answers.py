"""What tools return: bounded, as JSON carries it, and errors as data."""

from __future__ import annotations

import json

from nbdist.errors import ProcessError, SessionError
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.tools.answers import Cell, Failure, bounded, failure_of, refused


def test_a_long_text_keeps_its_beginning_and_its_end_and_says_how_much_is_missing() -> None:
    text = "".join(str(number % 10) for number in range(1000))
    assert bounded(text, 1000) == (text, 0)
    short, left_out = bounded(text, 100)
    assert (short[:25], short[-75:], left_out) == (text[:25], text[-75:], 900)
    assert "900" in short[25:-75]
    assert bounded("abc", 0)[1] == 3


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
