"""What processes ask for in a cell: kept until it is answered, or nobody can ask it any more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.cells.execution import Cell, Execution
from nbdist.cells.post_mortem import refuse_busy, refuse_sound
from nbdist.errors import SessionError
from nbdist.output import CellOutput


@pytest.fixture
def execution(tmp_path: Path) -> Execution:
    made = Execution(
        Cell(number=7, code="breakpoint()"),
        targets=range(2),
        link=SimpleNamespace(exits={}),  # type: ignore[arg-type]
        hosts={},
        output=CellOutput(processes=range(2), folder=tmp_path),
        heard=None,  # type: ignore[arg-type]
    )
    for process_id in (0, 1):
        made.adopt(process_id, SimpleNamespace(replied=False), "r")  # type: ignore[arg-type]
    return made


def asks(execution: Execution, process_id: int, number: int | None) -> None:
    content: dict[str, Any] = {"number": number}
    if number is not None:
        content |= {"prompt": "ipdb> ", "what": "at a breakpoint", "line": 1, "source": "x"}
    execution.hear(process_id, {"msg_type": "nbdist_prompt", "content": content})


def test_a_question_is_there_until_the_process_goes_on(execution: Execution) -> None:
    asks(execution, 1, 11)
    assert {p: prompt.number for p, prompt in execution.prompts().items()} == {1: 11}
    assert execution.prompts()[1].place == "at a breakpoint in line 1, x"
    asks(execution, 1, None)
    assert execution.prompts() == {}


def test_a_process_that_is_gone_or_has_left_the_cell_asks_nothing(execution: Execution) -> None:
    asks(execution, 0, 10)
    asks(execution, 1, 11)
    execution._submissions[0].replied = True  # type: ignore[misc]
    execution._link.exits[1] = "gone"  # type: ignore[index]
    assert execution.prompts() == {}


def test_the_next_question_may_come_before_it_is_known_that_the_line_was_taken(
    execution: Execution,
) -> None:
    asks(execution, 1, 11)

    def send() -> bool:
        assert execution.prompts() == {} and execution.commanded is not None
        asks(execution, 1, 12)
        return True

    assert execution.give(1, execution.prompts()[1], send)
    assert execution.prompts()[1].number == 12
    assert execution.commanded is None


def test_a_line_that_was_not_taken_is_asked_for_again(execution: Execution) -> None:
    asks(execution, 1, 11)
    prompt = execution.prompts()[1]
    assert not execution.give(1, prompt, lambda: False)
    assert execution.prompts() == {1: prompt}
    assert execution.commanded is None


def test_a_post_mortem_needs_a_process_that_is_free_and_on_which_a_cell_has_failed() -> None:
    refuse_busy([])
    refuse_sound({0: "ValueError: x"})
    with pytest.raises(SessionError, match=r"process 1 is in the middle of a cell.*%dist_stack 1"):
        refuse_busy([1])
    with pytest.raises(SessionError, match="No cell has failed on process 1,"):
        refuse_sound({0: "ValueError: x", 1: None})
