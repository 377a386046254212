"""Parts of values, the words of a line of `%dist_pull`, and what is said of values that differ; no processes."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from nbdist.contract.calls import Call
from nbdist.contract.calls.values import (
    ArrayOffer,
    LetGo,
    Nodes,
    PieceDigests,
    Preview,
    ValueOffer,
)
from nbdist.errors import ArrayError, GoneError, SessionError
from nbdist.magics import options
from nbdist.magics.parser import names_and_expressions
from nbdist.pieces import boxes, elements
from nbdist.session.values.flow import Flow, PartsMessage, answer_of, send
from nbdist.session.values.offers import Offers, ValueComparison
from nbdist.session.values.pull import Arriving
from nbdist.session.values.push import Packed


def test_boxes_cover_each_element_once_and_are_small() -> None:
    rng = random.Random(0)
    for _ in range(200):
        shape = [rng.randrange(0, 9) for _ in range(rng.randrange(0, 4))]
        bounds = [[3, 3 + size] for size in shape]
        seen = np.zeros([size + 12 for size in shape], int)
        for box in boxes(bounds, 4, 40):
            assert elements(box) * 4 <= 40
            seen[(*(slice(*pair) for pair in box), ...)] += 1
        inside = seen[(*(slice(*pair) for pair in bounds), ...)]
        assert inside.min(initial=1) == inside.max(initial=1) == 1
        assert seen.sum() == elements(bounds)


def test_an_element_is_never_divided() -> None:
    assert list(boxes([[0, 2]], 100, 40)) == [[[0, 1]], [[1, 2]]]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("w b", {"w": "w", "b": "b"}),
        ("k=model.a.kernel", {"k": "model.a.kernel"}),
        ("k=p['a b'] --on 1", {"k": "p['a b']"}),
        ('k=p["a b"] w', {"k": 'p["a b"]', "w": "w"}),
        ("k=(a + b) --each", {"k": "(a + b)"}),
        ("k=f(')', 1)", {"k": "f(')', 1)"}),
        ("k=a==b", {"k": "a==b"}),
        ("w # the weights", {"w": "w"}),
    ],
)
def test_a_word_of_a_pull_is_a_name_or_a_name_and_python(line: str, names: dict[str, str]) -> None:
    asked = options.parser("dist_pull").parse_among_code(line)
    assert names_and_expressions(asked.names) == names


def test_an_option_keeps_its_quotation() -> None:
    assert options.parser("dist_pull").parse_among_code('w --on "0, 1"').on == "0, 1"


@pytest.mark.parametrize("word", ["p['n']", "k=", "1=2", "+"])
def test_what_has_no_name_is_refused(word: str) -> None:
    with pytest.raises(ArrayError, match="is no name to pull into"):
        names_and_expressions([word])


def test_large_arrays_travel_beside_the_pickle_once() -> None:
    large, small = np.zeros(1 << 15), np.zeros(4)
    found = Packed({"a": [large, small], "b": large}, all_apart=False)
    assert [array is large for array in found.arrays] == [True]
    assert len(found.structure) < 10_000


# -- what is on its way ----------------------------------------------------------------------------


class Pending:
    """Ready when it is said to be."""

    def __init__(self) -> None:
        self.is_ready = False

    def ready(self) -> bool:
        return self.is_ready

    def wait(self, timeout_s: float) -> None:
        """The test says when."""

    def get(self) -> Any:
        return {}, []


class Processes:
    """Answers the oldest request whenever nothing else can be done."""

    def __init__(self, answers: bool = True) -> None:
        self.under_way: list[tuple[PartsMessage, Pending]] = []
        self.most: dict[int, int] = {}
        self.begun: list[int] = []
        self.lost: dict[int, str] = {}
        self._answers = answers

    def job(self, process_id: int, *, nbytes: int = 10) -> PartsMessage:
        def begin() -> Any:
            request = Pending()
            self.begun.append(process_id)
            self.under_way.append((job, request))
            alike = sum(other.process_id == process_id for other, _ in self.under_way)
            self.most[process_id] = max(alike, self.most.get(process_id, 0))
            return request

        job = PartsMessage(
            process_id=process_id, nbytes=nbytes, begin=begin, end=lambda answer: None
        )
        return job

    def gone(self, process_id: int) -> str | None:
        if self._answers and self.under_way:
            self.under_way.pop(0)[1].is_ready = True
        return self.lost.get(process_id)

    def where(self, process_id: int) -> str:
        return f"process {process_id} (host h{process_id})"


def test_only_a_few_parts_are_on_their_way_at_once() -> None:
    processes, moved = Processes(), []
    flow = Flow(processes, timeout_s=60, progress=lambda done, total: moved.append((done, total)))  # type: ignore[arg-type]
    flow.run([processes.job(0) for _ in range(30)])
    assert processes.most == {0: 2}
    assert moved[-1] == (300, 300) and moved == sorted(moved)


def test_what_moves_nothing_is_no_progress() -> None:
    processes, moved = Processes(), []
    flow = Flow(processes, timeout_s=60, progress=lambda done, total: moved.append((done, total)))  # type: ignore[arg-type]
    flow.run([processes.job(0, nbytes=0), processes.job(0)])
    assert moved == [(10, 10)]


def test_many_processes_do_not_have_all_their_messages_sent_at_once() -> None:
    processes = Processes(answers=False)
    jobs = [processes.job(p) for p in range(64) for _ in range(3)]
    with pytest.raises(SessionError):
        Flow(processes, timeout_s=0.01, progress=lambda done, total: None).run(jobs)  # type: ignore[arg-type]
    assert processes.begun == list(range(16))


def test_processes_are_served_side_by_side() -> None:
    processes = Processes()
    jobs = [processes.job(p) for p in (0, 1) for _ in range(20)]
    Flow(processes, timeout_s=60, progress=lambda done, total: None).run(jobs)  # type: ignore[arg-type]
    assert processes.begun[:4] == [0, 1, 0, 1]


def test_a_process_that_has_ended_ends_the_move() -> None:
    processes = Processes(answers=False)
    processes.lost[1] = "killed by SIGKILL"
    jobs = [processes.job(p) for p in (0, 1)]
    with pytest.raises(GoneError, match=r"process 1 \(host h1\) has ended .*: killed by SIGKILL"):
        Flow(processes, timeout_s=60, progress=lambda done, total: None).run(jobs)  # type: ignore[arg-type]


@pytest.mark.parametrize("seen", ["when it is asked", "by its answer"])
def test_a_process_that_cannot_be_reached_any_more_is_waited_for_until_it_is_known_how_it_ended(
    seen: str,
) -> None:
    looks: list[int] = []

    class Gone:
        def get(self) -> Any:
            raise GoneError("process 1: EngineError: Engine 1 died while running task 'x'")

    class Leaving(Processes):
        def send(self, process_id: int, call: Any) -> Any:
            if seen == "when it is asked":
                raise GoneError("process 1 has ended.")
            return Gone()

        def gone(self, process_id: int) -> str | None:
            looks.append(process_id)
            return "killed by SIGKILL" if len(looks) > 2 else None

    with pytest.raises(GoneError, match=r"has ended while values were moved: killed by SIGKILL"):
        processes: Any = Leaving()
        answer_of(processes, 1, send(processes, 1, LetGo(token="token")))


def test_who_does_not_answer_is_named() -> None:
    processes = Processes(answers=False)
    jobs = [processes.job(p) for p in (0, 1)]
    with pytest.raises(SessionError, match=r"processes 0, 1 did not answer within 0\.0 s"):
        Flow(processes, timeout_s=0.01, progress=lambda done, total: None).run(jobs)  # type: ignore[arg-type]


# -- what arrives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["shared", "none", "not worth it"])
def test_arrays_are_filled_by_their_processes_and_by_messages(
    memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if memory == "none":
        monkeypatch.delattr(os, "memfd_create")
    large = (2, 1 << 15) if memory == "not worth it" else (4, 1 << 18)
    types = [(np.dtype("f4"), large), (np.dtype("i2"), (3,)), (np.dtype("f8"), (0, 5))]
    arriving = Arriving(types)
    assert [one.nbytes for one in arriving.addresses] == (
        [64, 4 << 20] if memory == "shared" else []
    )
    rows = np.arange(large[1], dtype="f4")
    arriving.put(0, [[0, large[0]], [0, large[1]]], np.zeros(large, "f4"))
    arriving.put(0, [[1, 2], [0, large[1]]], rows[np.newaxis])
    arriving.put(1, [[0, 3]], np.array([1, 2, 3], "i2"))
    filled, small, empty = arriving.arrays()
    arriving.close()
    np.testing.assert_array_equal(filled[1], rows)
    assert small.tolist() == [1, 2, 3] and empty.shape == (0, 5)
    for array, (dtype, shape) in zip((filled, small, empty), types, strict=True):
        assert (array.dtype, array.shape, array.flags.writeable) == (dtype, shape, True)
    small += 1
    filled += 1
    assert filled[1, 0] == 1


# -- what differs ----------------------------------------------------------------------------------


class Answering:
    """Processes that answer from a table: by call, then by process."""

    def __init__(self, **answers: dict[int, Any]) -> None:
        self._answers = answers

    def send(self, process_id: int, call: Call[Any]) -> Any:
        request = Pending()
        request.is_ready = True
        request.get = lambda: (self._answers[call.NAME][process_id], [])  # type: ignore[method-assign]
        return request


def offered(digest: str = "d", **arrays: ArrayOffer) -> ValueOffer:
    return ValueOffer(digest=digest, arrays=arrays)


W = ArrayOffer(dtype="float32", shape=(4,), nbytes=16, whole=False, pieces=(((0, 2),),))


def compare(processes: Answering, offers: Any) -> None:
    """As a pull does."""
    compared = ValueComparison(
        Offers(
            processes=processes,  # type: ignore[arg-type]
            by_process=offers,
            token="token",
            expression="x",
            timeout_s=60,
        )
    )
    compared.refuse_other_structure()
    for job in compared.jobs():
        job.end(job.begin().get())


def refuse(processes: Answering, offers: Any) -> str:
    with pytest.raises(ArrayError) as raised:
        compare(processes, offers)
    return str(raised.value)


def test_equal_pieces_of_a_global_array_must_be_equal_on_all_that_hold_them() -> None:
    offers = {p: offered(x=W) for p in range(3)}
    equal = Answering(digests={p: PieceDigests(digests=("a",)) for p in range(3)})
    compare(equal, offers)
    text = refuse(
        Answering(
            digests={p: PieceDigests(digests=("b" * 9 if p else "a" * 9,)) for p in range(3)},
            preview=dict.fromkeys((0, 1), Preview(text="[0, …]")),
        ),
        offers,
    )
    assert "process 0 has f32[4][0:2] [0, …] (digest aaaaaaa), processes 1, 2 have" in text


def test_pieces_that_only_one_process_holds_are_not_compared() -> None:
    one, other = W, structs.replace(W, pieces=(((2, 4),),))
    asked = Answering()  # any question would raise
    compare(asked, {0: offered(x=one), 1: offered(x=other)})


def test_the_first_place_that_differs_is_named_and_what_is_missing_there() -> None:
    nodes = {
        0: Nodes(nodes=(("x", "1", "a dict of 1"), ("x['a']", "2", "7"))),
        1: Nodes(nodes=(("x", "1", "a dict of 1"), ("x['b']", "3", "8"))),
    }
    offers = {p: offered(str(p)) for p in range(2)}
    text = refuse(Answering(nodes=nodes), offers)
    assert "at x['a']: process 0 has 7, process 1 has nothing. --on 0 brings" in text
