"""What processes of Keras tell each other before a call, without any framework."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.frameworks.jax.step.made import coordinator_client
from nbdist.engine.frameworks.keras.guards.agreement import FOLDER, CallAgreement, SharedBoard
from nbdist.engine.frameworks.keras.guards.arguments import (
    BatchPlaces,
    RowsPerStep,
    feed,
    written_paths,
)
from nbdist.engine.frameworks.keras.guards.call import (
    GuardedCall,
    batch_refusal,
    disagreement,
    same_rows,
)
from nbdist.engine.frameworks.keras.guards.watch import CallGuard
from nbdist.errors import InputError

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
    assert "finished this cell without calling fit" in str(two[0].meet())


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
    assert "this cell runs on process 0 only" in str(two[0].meet())


def test_a_cell_that_does_not_come_from_the_kernel_is_not_agreed_on(two):
    two[0].cell.started(1, "fit()")
    assert two[0].meet() is None


def test_an_unreachable_coordinator_is_an_error_and_no_wait(two, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("UNAVAILABLE")

    two[0].begin(10)
    monkeypatch.setattr(Store, "key_value_set", refuse)
    assert "JAX's coordinator does not answer" in str(two[0].meet())
    two[0].cell.finished()


def test_without_jax_s_private_store_processes_do_not_agree(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace())
    assert coordinator_client() is None
    state = SimpleNamespace(client=object())
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state))
    assert coordinator_client() is None
    state.client = Store()
    assert coordinator_client() is state.client


def test_jax_keeps_its_store_where_it_is_looked_for():
    import jax._src.distributed as distributed

    assert hasattr(distributed.global_state, "client")


def test_the_board_holds_one_text_for_each_process():
    store = Store()
    SharedBoard(lambda: store, 3).put("first")
    SharedBoard(lambda: store, 3).put("second")
    assert store.entries == {f"{FOLDER}/3": "second"}
    assert SharedBoard(lambda: store, 0).read() == {3: "second"}


def test_the_board_is_that_of_the_coordinator_that_there_is_now():
    stores = [Store(), Store()]
    now = [stores[0]]
    board = SharedBoard(lambda: now[0], 3)
    board.put("before")
    now[0] = stores[1]
    board.put("after a repair")
    assert [store.entries for store in stores] == [
        {f"{FOLDER}/3": "before"},
        {f"{FOLDER}/3": "after a repair"},
    ]
    assert board.read() == {3: "after a repair"}


def test_without_a_coordinator_the_board_says_so():
    with pytest.raises(RuntimeError, match="not connected to a coordinator"):
        SharedBoard(lambda: None, 3).put("text")


def call(**options) -> GuardedCall:
    return GuardedCall(method="fit", host="h", **options)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (call(facts={"steps": 8}), call(facts={"steps": 7}), "steps_per_epoch=7"),
        (call(facts={"epochs": 1}), call(facts={"epochs": 2}), "the same epochs"),
        (call(facts={"mesh": "a"}), call(facts={"mesh": "b"}), "Set the same distribution"),
        (call(paths=("/c",)), call(paths=("/c",)), "nbdist.keras.Checkpoint"),
    ],
)
def test_calls_that_differ_read_differently(first, second, said):
    assert said in str(disagreement({0: first, 1: second}, 0))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (call(facts={"steps": 8}), call(facts={"steps": None})),
        (call(facts={"steps": 8}), call()),
        (call(paths=("/a",)), call(paths=("/b",))),
        (call(paths=("/a",)), GuardedCall(method="fit", host="other", paths=("/a",))),
    ],
)
def test_what_is_not_known_or_not_shared_is_not_refused(first, second):
    assert disagreement({0: first, 1: second}, 0) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [(("a", "a"), True), (("a", "b"), False), ((None, None), False), (("a",), False)],
)
def test_rows_that_all_processes_give_are_said(rows, said):
    text = same_rows({p: call(rows=digest) for p, digest in enumerate(rows)}, 2)
    assert (text is not None) is said
    if text is not None:
        assert "same x on processes 0, 1" in text
        assert "each row 2 times" in text


@pytest.fixture
def keras(monkeypatch):
    stub = SimpleNamespace(
        tree=SimpleNamespace(flatten=lambda data: data if isinstance(data, list) else [data]),
        callbacks=SimpleNamespace(
            ModelCheckpoint=type("ModelCheckpoint", (), {"filepath": "a/../c"}),
            BackupAndRestore=type("BackupAndRestore", (), {"backup_dir": "/b"}),
        ),
    )
    monkeypatch.setitem(sys.modules, "keras", stub)
    return stub


def rows(count: int) -> SimpleNamespace:
    return SimpleNamespace(shape=(count, 64))


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (rows(100), {"batch_size": 32}, RowsPerStep(100, 32, 4, 4)),
        (rows(96), {"batch_size": None}, RowsPerStep(96, 32, 0, 3)),
        (rows(20), {"batch_size": 32}, RowsPerStep(20, 20, 0, 1)),
        (rows(100), {"batch_size": None, "steps": 10}, RowsPerStep(100, 10, 0, 10)),
        (rows(100), {"batch_size": 32, "steps": 2}, RowsPerStep(100, 32, 0, 2)),
        (rows(100), {"batch_size": 32, "steps": 2, "epochs": 2}, RowsPerStep(100, 32, 4, 2)),
        (rows(100), {"batch_size": 32, "steps": 9}, RowsPerStep(100, 32, 4, 4)),
        ([rows(64), rows(64)], {"batch_size": 32}, RowsPerStep(64, 32, 0, 2)),
        (SimpleNamespace(num_batches=6), {"batch_size": None}, RowsPerStep(None, None, None, 6)),
        (iter(()), {"batch_size": None, "steps": 5}, RowsPerStep(None, None, None, 5)),
        (iter(()), {"batch_size": None}, RowsPerStep(None, None, None, None)),
    ],
)
def test_steps_are_known_beforehand_as_keras_counts_them(keras, data, options, expected):
    assert feed(data, **{"steps": None, **options}) == expected


def test_paths_of_callbacks_are_absolute(keras):
    both = [keras.callbacks.ModelCheckpoint(), keras.callbacks.BackupAndRestore(), object()]
    paths = written_paths("fit", {"callbacks": both})
    assert [path.rpartition("/")[2] for path in paths] == ["c", "b"]
    assert paths[0].startswith("/")
    assert written_paths("fit", {"callbacks": None}) == ()


PLACES = BatchPlaces("DataParallel", "batch=8", "batch", 8, 4, (0, 1))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (RowsPerStep(96, 30, 6, 4), "batch_size=28 or 32."),
        (RowsPerStep(98, 32, 2, 4), "96 or 100 rows on this process, such as x[:96]."),
        (RowsPerStep(3, 3, 0, 1), "too few"),
        (RowsPerStep(96, 32, 0, 3), None),
        (RowsPerStep(None, None, None, 3), None),
    ],
)
def test_sizes_that_do_not_divide_are_named_with_those_that_do(found, said):
    refusal = batch_refusal("fit", "batch_size", found, PLACES)
    assert (said in refusal) if said else refusal is None


def test_a_process_outside_of_the_mesh_is_refused_and_waits_for_nobody(monkeypatch):
    store, elsewhere = Store(), replace(PLACES, own=0, processes=(1, 2))
    guard = CallGuard(Process(store, 0).agreement, None, None)
    monkeypatch.setattr(guard, "_places", lambda: (None, elsewhere))
    error = guard.helper("nbdist.keras.save")
    assert isinstance(error, InputError)
    assert "lies on processes 1, 2" in str(error)
    assert store.entries == {}
