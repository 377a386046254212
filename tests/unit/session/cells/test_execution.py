"""What processes ask for in a cell: kept until it is answered, or nobody can ask it any more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.calls.stepping import Sent
from nbdist.contract.iopub import CellStep, Prompt, Prompting, Rescued, content_of
from nbdist.errors import SessionError
from nbdist.monitor.monitor import Held, HeldArray
from nbdist.session.cells import execution as module
from nbdist.session.cells.execution import Cell, Execution
from nbdist.session.cells.failure import refuse_in_cell, refuse_without_failure
from nbdist.view.output import CellOutput
from tests.builders.outcomes import ended

HELD = Held(
    rss_bytes=812 << 20,
    arrays=(HeldArray(path="w", dtype="float32", shape=(1024, 4096), nbytes=8 << 20),),
)
SAID = (
    "memory 812 MB when it last reported, 2.5 s before its end; largest arrays on its devices: "
    "w (f32[1024, 4096]) 8 MB"
)


@pytest.fixture
def execution(tmp_path: Path) -> Execution:
    made = Execution(
        Cell(number=7, code="breakpoint()"),
        targets=range(2),
        cluster=SimpleNamespace(exits={}),  # type: ignore[arg-type]
        hosts={0: "h1", 1: "h2"},
        output=CellOutput(processes=range(2), folder=tmp_path),
        reports=SimpleNamespace(  # type: ignore[arg-type]
            activity=lambda p: None, silence=lambda p: 2.5, held=lambda p: HELD
        ),
    )
    for process_id in (0, 1):
        made.adopt(process_id, SimpleNamespace(replied=False), "r")  # type: ignore[arg-type]
    return made


def asks(execution: Execution, process_id: int, number: int | None) -> None:
    prompt = None
    if number is not None:
        what = "at a breakpoint"
        prompt = Prompt(number=number, text="ipdb> ", what=what, line=1, source="x")
    receive(execution, process_id, *content_of(Prompting(prompt=prompt)))


def receive(execution: Execution, process_id: int, kind: str, content: Any) -> None:
    execution.receive(process_id, {"msg_type": kind, "content": content})


def test_a_question_is_there_until_the_process_goes_on(execution: Execution) -> None:
    asks(execution, 1, 11)
    assert {p: prompt.number for p, prompt in execution.prompts().items()} == {1: 11}
    assert (execution.prompts()[1].line, execution.prompts()[1].source) == (1, "x")
    asks(execution, 1, None)
    assert execution.prompts() == {}


def test_a_process_that_is_gone_or_has_left_the_cell_asks_nothing(execution: Execution) -> None:
    asks(execution, 0, 10)
    asks(execution, 1, 11)
    execution._submissions[0].replied = True  # type: ignore[misc]
    execution._cluster.exits[1] = "gone"  # type: ignore[index]
    assert execution.prompts() == {}


@pytest.mark.parametrize(
    ("code", "because_of", "said"),
    [
        (-9, None, SAID),
        (-7, None, SAID),
        (1, None, None),
        (-9, "the engines' parent process", None),
    ],
)
def test_what_a_process_held_is_said_where_a_signal_has_ended_it(
    execution: Execution,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    because_of: str | None,
    said: str | None,
) -> None:
    monkeypatch.setattr("nbdist.session.cells.execution.time.time", lambda: 1003.0)
    execution._cluster.exits[1] = ended(code=code, time=1003.0, because_of=because_of)  # type: ignore[index]
    assert execution.outcomes()[1].held == said
    assert execution.outcomes()[1].killed is (said is not None)


def test_the_next_question_may_come_before_it_is_known_that_the_line_was_taken(
    execution: Execution,
) -> None:
    asks(execution, 1, 11)

    def send() -> bool:
        assert execution.prompts() == {} and execution.line_sent_at is not None
        asks(execution, 1, 12)
        return True

    assert execution.give(1, execution.prompts()[1], send)
    assert execution.prompts()[1].number == 12
    assert execution.line_sent_at is None


def test_a_line_that_was_not_taken_is_asked_for_again(execution: Execution) -> None:
    asks(execution, 1, 11)
    prompt = execution.prompts()[1]
    assert not execution.give(1, prompt, lambda: False)
    assert execution.prompts() == {1: prompt}
    assert execution.line_sent_at is None


def test_a_post_mortem_needs_a_process_that_is_free_and_on_which_a_cell_has_failed() -> None:
    refuse_in_cell([])
    refuse_without_failure({0: "ValueError: x"})
    with pytest.raises(SessionError, match=r"process 1 is in the middle of a cell.*%dist_stack 1"):
        refuse_in_cell([1])
    with pytest.raises(SessionError, match="No cell has failed on process 1,"):
        refuse_without_failure({0: "ValueError: x", 1: None})


WRONG = [
    ("nbdist_step", {}, "CellStep: object missing required field number."),
    ("nbdist_step", {"number": 7, "sent": 3}, "CellStep.sent: expected object, got int."),
    ("nbdist_sent", {"programs": "many"}, "Sent."),
    ("nbdist_prompt", {"prompt": {"number": "1"}}, "Prompting.prompt."),
    ("nbdist_rescue", {"path": 1}, "Rescued."),
    ("nbdist_rescue", None, "Rescued: expected object, got null."),
]


@pytest.mark.parametrize(("kind", "content", "text"), WRONG)
def test_a_message_of_a_wrong_shape_is_one_line_and_the_next_is_taken(
    execution: Execution, kind: str, content: Any, text: str
) -> None:
    said: list[str] = []
    execution._guard._report = said.append
    receive(execution, 1, kind, content)
    receive(execution, 1, *content_of(step()))
    (line,) = said
    assert "WireError: process 1 (host h2) has published what cannot be read: " in line
    assert text[:20] in line
    assert execution.steps == {1: step()}
    assert execution.sent == {} and execution.prompts() == {}


def step() -> CellStep:
    counts = dict.fromkeys(("programs", "names", "kinds", "parts", "generation", "serial"), 0)
    return CellStep(number=7, sent=Sent(**counts, counted=True, unsettled=False, proven=None))


def test_what_a_process_has_saved_is_said(execution: Execution) -> None:
    saved = Rescued(path="/tmp/x.npz", arrays=2, nbytes=8, left_out=("w",))
    receive(execution, 1, *content_of(saved))
    assert "2 shards of arrays, 8 B, not w, in /tmp/x.npz" in str(execution.output.__dict__)


@pytest.mark.parametrize("said", [True, False])
def test_an_interrupt_while_a_process_is_asked_to_stop_stays_one(
    execution: Execution, said: bool
) -> None:
    with execution.stopping() as stop:
        execution.mark([0], "interrupted")
        stop.update({0} if said else ())
    fails(execution, 0, "KeyboardInterrupt")
    assert execution.outcomes()[0].outcome == "interrupted"


def test_one_that_raises_while_it_is_asked_to_stop_has_raised(execution: Execution) -> None:
    with execution.stopping() as stop:
        fails(execution, 0, "ValueError")
        assert execution.outcomes()[0].outcome == "raised"
        stop.add(1)
    fails(execution, 1, "KeyboardInterrupt")
    assert {p: s.outcome for p, s in execution.outcomes().items()} == {
        0: "raised",
        1: "interrupted",
    }


def test_missing_output_is_waited_for_while_some_still_comes(
    execution: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    execution._reports.silence = lambda p: 0.1  # type: ignore[method-assign]
    replied: Any = Future()
    replied.set_result(None)
    execution.adopt(
        0,
        SimpleNamespace(replied=True, output=Future(), error=lambda: None, future=replied),  # type: ignore[arg-type]
        "r",
    )
    for _ in range(4):
        receive(execution, 0, "stream", {"name": "stdout", "text": "."})
        assert execution.outcomes()[0].outcome == "running", now
        now += module.OUTPUT_SECONDS / 2
    now += module.OUTPUT_SECONDS
    assert execution.outcomes()[0].outcome == "finished"
    assert "has not arrived" in str(execution.output.__dict__)


def fails(execution: Execution, process_id: int, name: str) -> None:
    error = SimpleNamespace(ename=name, evalue="", traceback="")
    done: Any = Future()
    done.set_result(None)
    execution.adopt(
        process_id,
        SimpleNamespace(replied=True, output=done, error=lambda: error, future=done),  # type: ignore[arg-type]
        "r",
    )


class LeftClient:
    """Knows no engine any more."""

    ids: Sequence[int] = ()

    def __getitem__(self, engine: int) -> Any:
        raise IndexError(f"No such engine: {engine}")


def test_one_that_dies_just_when_the_cell_is_sent_is_gone_as_its_end_says(
    execution: Execution,
) -> None:
    cluster: Any = execution._cluster
    cluster.client, cluster.engines, cluster.idents = LeftClient(), {0: 0, 1: 1}, {0: b"0", 1: b"1"}
    execution.send("label")
    assert {p: s.outcome for p, s in execution.outcomes().items()} == {0: "running", 1: "running"}
    cluster.exits[1] = ended()
    assert execution.outcomes()[1].outcome == "gone"
    assert execution.outcomes()[1].error == "killed by signal 9 (SIGKILL)"
