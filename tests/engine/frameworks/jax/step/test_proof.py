"""The proof passes where all numbers are one's own, and says so where they are not."""

import threading

import jax
import numpy as np
import pytest
from msgspec import structs

from nbdist.contract.calls.stepping import Proven, Sent
from nbdist.contract.iopub import CellStep
from nbdist.engine.frameworks.jax.step import SWITCH, Proof, Step, Trial
from nbdist.engine.frameworks.jax.step.dispatched import ProgramCount
from tests.waiting import wait_for

WAIT = 60


@pytest.fixture
def ignored():
    return []


@pytest.fixture
def proof(ignored):
    return Proof(lambda thread, out: ignored.append((thread, out)))


def finished(trial):
    assert trial.done.wait(WAIT)
    return trial


def test_alone_it_passes(proof):
    trial = finished(proof.begin(2**63 - 1, ProgramCount(programs=3, names=7), counted=True))
    assert (trial.passed, trial.alike, trial.error) == (True, True, None)
    assert trial.in_step


def with_another(proof, change, *, everywhere=True):
    """As if another process had sent numbers of its own, in the meeting as well, or in what follows only."""

    for gathering in (proof._meeting, proof._all) if everywhere else (proof._all,):
        gathering.rows = and_others(gathering.rows, change)


def and_others(gather, change):
    def rows(row):
        mine = gather(row)
        others = mine.copy()
        change(others)
        return np.concatenate([mine, others])

    return rows


@pytest.mark.parametrize("column", [0, 1])
def test_another_number_of_the_proof_does_not_pass(proof, column):
    def change(rows):
        rows[:, column] += 1

    with_another(proof, change)
    trial = finished(proof.begin(5, ProgramCount(), counted=True))
    assert trial.passed is False
    assert not trial.in_step


def test_a_program_more_elsewhere_is_not_alike_where_the_proof_passes(proof):
    def change(rows):
        rows[:, 2] += 1

    with_another(proof, change)
    trial = finished(proof.begin(5, ProgramCount(programs=1), counted=True))
    assert (trial.passed, trial.alike, trial.uneven) == (True, False, True)
    assert not trial.in_step


@pytest.mark.parametrize("column", [3, 4])
def test_other_programs_or_collectives_are_not_alike(proof, column):
    def change(rows):
        rows[:, column] += 1

    with_another(proof, change)
    trial = finished(proof.begin(5, ProgramCount(programs=1), counted=True))
    assert (trial.passed, trial.alike) == (True, False)
    assert not trial.in_step


@pytest.mark.parametrize("counted", [True, False])
def test_what_is_counted_needs_no_collective_of_all_devices(proof, counted):
    used = []
    gather = proof._all.rows
    proof._all.rows = lambda row: (used.append(row), gather(row))[1]
    assert finished(proof.begin(5, ProgramCount(), counted=counted)).in_step
    assert len(used) == (not counted)


def test_one_that_does_not_count_has_all_take_part_in_it(proof):
    def change(rows):
        rows[:, 5] = 1

    with_another(proof, change)
    used = []
    gather = proof._all.rows
    proof._all.rows = lambda row: (used.append(row), gather(row))[1]
    assert finished(proof.begin(5, ProgramCount(), counted=True)).in_step
    assert len(used) == 1


def test_what_all_devices_bring_decides(proof):
    def change(rows):
        rows[:, 0] += 1

    with_another(proof, change, everywhere=False)
    assert finished(proof.begin(5, ProgramCount(), counted=False)).passed is False


def test_programs_on_some_devices_may_differ(proof):
    assert finished(
        proof.begin(5, ProgramCount(programs=1, names=2, parts=3), counted=True)
    ).in_step


def test_large_numbers_are_cut_off_rather_than_refused(proof):
    assert finished(
        proof.begin(2**70, ProgramCount(programs=2**40, names=2**32 - 1), counted=True)
    ).in_step


def test_an_error_is_an_answer(proof):
    def broken(rows):
        raise RuntimeError("Gloo all-gather failed: Connection closed by peer")

    proof._meeting.rows = broken
    trial = finished(proof.begin(5, ProgramCount(), counted=True))
    assert trial.passed is False
    assert trial.error == "RuntimeError: Gloo all-gather failed: Connection closed by peer"


def test_an_abandoned_one_ends_at_once_and_proves_nothing_later(proof):
    let = threading.Event()
    gather = proof._meeting.rows
    proof._meeting.rows = lambda row: (let.wait(WAIT), gather(row))[1]
    trial = proof.begin(5, ProgramCount(), counted=True)
    trial.abandon()
    assert trial.done.is_set()
    assert trial.passed is None
    let.set()
    for thread in threading.enumerate():
        if thread.name == "nbdist-proof":
            thread.join(WAIT)
    assert not trial.in_step


def test_one_that_has_passed_cannot_be_abandoned_any_more(proof):
    trial = finished(proof.begin(5, ProgramCount(), counted=True))
    trial.abandon()
    assert trial.in_step


def test_what_it_sends_itself_is_not_counted(proof, ignored):
    finished(proof.begin(5, ProgramCount(), counted=True))
    assert len(ignored) == 2
    (first, begun), (last, over) = ignored
    assert first == last != threading.get_ident()
    assert (begun, over) == (True, False)


def test_it_compiles_whatever_is_in_context(ignored):
    some = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("a",))
    with jax.set_mesh(some), jax.default_device(jax.devices()[1]), jax.enable_x64(True):
        assert finished(
            Proof(lambda thread, out: None).begin(1, ProgramCount(), counted=False)
        ).in_step


# ---- a process's part


@pytest.fixture
def said():
    return []


@pytest.fixture
def step(said):
    made = Step(said.append, before=())
    made.begin()
    yield made
    made.dispatched._unhook()


def state(**facts):
    """What a process says of itself that has sent nothing since its back end is up, but for `facts`."""
    nothing = Sent(
        programs=0,
        names=0,
        parts=0,
        kinds=0,
        generation=1,
        serial=0,
        counted=True,
        unsettled=False,
        proven=None,
    )
    return structs.replace(nothing, **facts)


def test_a_cell_that_sent_nothing_is_not_proven(step, said):
    step._proof.begin = None  # it must not be asked
    step.end_cell(1, failed=False)
    assert said == []


def test_a_cell_that_sent_programs_is_proven_and_counts_from_nothing(step, said):
    step.dispatched.count = ProgramCount(programs=2, names=3)
    step.end_cell(1, failed=False)
    assert step.sent() == state(proven=1)
    assert not [s for s in said if not s.proving]


def test_a_cell_that_failed_reports_its_count_and_does_not_wait(step, said):
    step.dispatched.count = ProgramCount(programs=2, names=3)
    step._proof.begin = None
    step.end_cell(1, failed=True)
    sent = state(programs=2, names=3, unsettled=True)
    assert said == [CellStep(number=1, sent=sent)]


def test_a_proof_that_waits_is_reported_and_ends_when_it_is_abandoned(step, said):
    step.dispatched.count = ProgramCount(programs=1)
    step._proof.begin = lambda number, count, counted: Trial(number)
    threading.Thread(target=lambda: (wait_for(lambda: said), step.abandon())).start()
    step.end_cell(7, failed=False)
    assert said[0] == CellStep(
        number=7, proving=True, sent=structs.replace(step.sent(), unsettled=False)
    )
    assert step.unsettled
    assert (said[1].proving, said[1].proven.passed) == (False, None)
    assert step.sent().programs == 1


def test_an_interrupt_ends_the_wait_for_a_proof(step, said):
    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            if timeout is None:
                raise KeyboardInterrupt
            return False

    step.dispatched.count = ProgramCount(programs=1)
    step._proof.begin = lambda number, count, counted: Trial(number, done=Interrupted())
    step.end_cell(7, failed=False)
    assert said[-1].proven.passed is None


def test_a_proof_that_did_not_pass_is_reported(step, said):
    trial = Trial(7, passed=True, alike=False)
    trial.done.set()
    step.dispatched.count = ProgramCount(programs=1)
    step._proof.begin = lambda number, count, counted: trial
    step.end_cell(7, failed=False)
    assert said[-1].proven == Proven(passed=True, alike=False)
    assert step.sent().programs == 1


def test_taking_part_has_a_limit(step):
    step._proof.begin = lambda number, count, counted: Trial(number)
    assert step.prove(1, timeout_s=0.01, compared=True) == Proven(passed=None, alike=True)


def test_without_a_back_end_nothing_passes(step):
    step.listen_anew()
    assert step.prove(1, timeout_s=1, compared=True).passed is False
    step.end_cell(1, failed=False)


def test_the_switch_turns_all_of_it_off(said, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    made = Step(said.append, before=())
    made.begin()
    assert not made.dispatched.hooked
    made.end_cell(1, failed=True)
    assert said == []


def test_where_nothing_is_counted_every_cell_is_proven(step, said, monkeypatch):
    step.dispatched._unhook()
    monkeypatch.setattr(step.dispatched, "_unhook", None)
    begun = []
    begin = step._proof.begin
    step._proof.begin = lambda number, count, **options: (
        begun.append((number, options)),
        begin(number, count, **options),
    )[1]
    step.end_cell(1, failed=False)
    monkeypatch.undo()
    assert begun == [(1, {"counted": False})]


def test_abandoning_nothing_does_no_harm(step):
    step.abandon()
    step.end_cell(1, failed=False)


# ---- where the kernel compares


class Under:
    """An array that a program computes."""

    def __init__(self):
        self.there = threading.Event()

    def is_deleted(self):
        return False

    def is_ready(self):
        return self.there.is_set()

    def block_until_ready(self):
        assert self.there.wait(WAIT)


def send(step, *outputs):
    """As a program on all devices does."""
    step.dispatched.serial += 1
    step.dispatched.count = ProgramCount(programs=step.dispatched.count.programs + 1, names=3)
    step.dispatched.origins.computed(outputs, *step.dispatched.place)


def test_what_was_sent_is_said_without_a_proof_and_once(step, said):
    step._proof.begin = None  # it must not be asked
    send(step)
    step.end_cell(5, failed=False, compared=True)
    sent = state(programs=1, names=3, serial=1)
    assert said == [CellStep(number=5, compared=True, sent=sent)]
    step.end_cell(6, failed=False, compared=True)
    step.end_cell(7, failed=False)
    assert len(said) == 1
    send(step)
    step.end_cell(8, failed=False, compared=True)
    assert said[1:] == [
        CellStep(number=8, compared=True, sent=structs.replace(sent, programs=2, serial=2))
    ]


def test_what_was_sent_is_said_when_it_is_computed(step, said):
    array, other = Under(), Under()
    send(step, array)
    send(step, other)

    def compute():
        wait_for(lambda: said)
        array.there.set()
        other.there.set()

    threading.Thread(target=compute).start()
    step.end_cell(5, failed=False, compared=True)
    assert [(one.proving, one.compared) for one in said] == [(True, True), (False, True)]
    assert all(one.sent.serial == 2 and one.proven is None for one in said)
    assert not step.unsettled


def test_what_does_not_come_is_left_when_it_is_abandoned(step, said):
    array = Under()
    send(step, array)
    threading.Thread(target=lambda: (wait_for(lambda: said), step.abandon())).start()
    step.end_cell(5, failed=False, compared=True)
    assert said[1].proven.passed is None
    assert step.unsettled
    array.there.set()


def test_what_was_computed_for_an_earlier_cell_is_not_looked_at_again(step, said):
    send(step)
    step.end_cell(5, failed=False, compared=True)
    step.dispatched.origins.computed([late := Under()], 1, 1)
    send(step)
    step.end_cell(6, failed=False, compared=True)
    assert [one.proving for one in said] == [False, False]
    late.there.set()


def test_what_is_not_counted_is_proven_all_the_same(step, said, monkeypatch):
    step.dispatched._unhook()
    monkeypatch.setattr(step.dispatched, "_unhook", None)
    step.end_cell(1, failed=False, compared=True)
    monkeypatch.undo()
    assert step.proven == 1


@pytest.mark.parametrize(("known", "programs"), [((1, 2), 0), ((1, 1), 2), ((2, 2), 2), (None, 2)])
def test_a_cell_begins_to_count_where_the_kernel_knows_all_to_be_in_step(step, known, programs):
    send(step)
    send(step)
    step.begin_cell(9, [0], {}, in_step=known and list(known))
    assert step.sent().programs == programs
