"""What processes of Keras tell each other before a call, without any framework."""

from __future__ import annotations

import threading

import pytest

from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.frameworks.keras.guards.agreement import CallAgreement, SharedBoard
from nbdist.engine.frameworks.keras.guards.call import (
    GuardedCall,
)

BOTH = (0, 1)


class Store:
    """The coordinator's key-value store, in this process."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def key_value_set(self, key: str, value: str, *, allow_overwrite: bool) -> None:
        self.entries[key] = value

    def key_value_dir_get(self, folder: str) -> list[tuple[str, str]]:
        return [(k, v) for k, v in self.entries.items() if k.startswith(folder)]


class Process:
    """One process with a cell, on the shared store."""

    def __init__(self, store: Store, number: int) -> None:
        self.cell = CurrentCell()
        self.agreement = CallAgreement(
            SharedBoard(lambda: store, number), self.cell, number, f"h{number}"
        )
        self.cell.at_edges(self.agreement.edge)

    def begin(self, run: int, targets: tuple[int, ...] = BOTH) -> None:
        self.cell.started(run, "fit()", run=run, targets=targets)

    def meet(self, group: tuple[int, ...] = BOTH, **call):
        return self.agreement.meet(GuardedCall(method="fit", host="h", **call), group)


@pytest.fixture
def two() -> tuple[Process, Process]:
    store = Store()
    return Process(store, 0), Process(store, 1)


def in_background(call):
    """Runs a call on a thread; the answer waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def join():
        thread.join(10)
        assert results, "still waiting"
        return results[0]

    return join


def test_equal_calls_go_on_in_several_cells(two):
    for run in (10, 11, 12):
        for process in two:
            process.begin(run)
        for _ in range(3):
            first = in_background(lambda: two[0].meet(facts={"steps": 3}))
            assert two[1].meet(facts={"steps": 3}) is None
            assert first() is None
        for process in two:
            process.cell.finished()


def test_a_call_waits_until_the_other_process_has_ended_the_cell(two):
    for process in two:
        process.begin(10)
    waiting = in_background(two[0].meet)
    two[1].cell.finished("ValueError: no\nmore lines")
    assert "process 1 (host h1) raised ValueError: no without calling fit" in str(waiting())


def test_a_later_cell_of_the_other_process_means_it_has_left_this_one(two):
    two[0].begin(10)
    two[1].begin(10)
    two[1].cell.finished()
    two[1].begin(11)
    two[1].meet(refusal="it cannot")
    assert "without calling fit" in str(two[0].meet())


def test_an_earlier_cell_s_end_does_not_count(two):
    two[1].begin(9)
    two[1].cell.finished()
    two[0].begin(10)
    two[1].begin(10)
    waiting = in_background(two[0].meet)
    assert two[1].meet() is None
    assert waiting() is None


def test_who_has_gone_on_to_the_next_cell_is_still_heard_by_the_slower_one(two):
    two[0].begin(10)
    two[1].begin(10)
    slower = in_background(two[0].meet)
    assert two[1].meet() is None
    two[1].cell.finished()
    two[1].begin(11)
    two[1].cell.finished()
    assert slower() is None


def test_a_refusal_is_reported_and_not_waited_for(two):
    two[0].begin(10)
    two[1].begin(10)
    assert two[1].meet(refusal="33 rows") is None
    assert str(two[0].meet()) == "process 1 (host h) does not call fit: 33 rows"


def test_crossed_distributions_do_not_wait_for_each_other():
    store = Store()
    processes = [Process(store, number) for number in range(3)]
    for process in processes:
        process.begin(10, targets=(0, 1, 2))
    waiting = in_background(lambda: processes[1].meet(group=(0, 1)))
    error = processes[0].meet(group=(0, 1, 2))
    assert "process 1 (host h1) calls fit with a distribution over processes 0, 1" in str(error)
    processes[0].cell.finished()
    assert waiting() is not None


def test_a_cell_for_some_processes_only_is_refused_without_waiting(two):
    two[0].begin(10, targets=(0,))
    assert "on process 0 only" in str(two[0].meet())


def test_a_cell_that_does_not_come_from_the_kernel_is_not_agreed_on(two):
    two[0].cell.started(1, "fit()")
    assert two[0].meet() is None


def test_an_unreachable_coordinator_is_an_error_and_no_wait(two, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("UNAVAILABLE")

    two[0].begin(10)
    monkeypatch.setattr(Store, "key_value_set", refuse)
    assert "coordinator does not answer" in str(two[0].meet())
    two[0].cell.finished()
