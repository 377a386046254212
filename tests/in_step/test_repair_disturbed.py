"""A repair that is itself disturbed: it finishes or is undone, never half, and no value is lost."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from nbdist.contract.events import Coordinating
from nbdist.errors import ProcessError, RecoveryError
from nbdist.session.cells.facts import Health
from nbdist.session.recovery import repair
from tests.in_step.world import LIMIT_SECONDS, Said, Shown, World

SOON_SECONDS = 25.0
"""Who has joined waits for the others ten seconds less."""

FAILS = "if me == 1:\n    raise ValueError('first')\nq = float(total(small))"
PRESS_SECONDS = 0.02

NO_MEMORY = """
from nbdist.engine.frameworks.jax.repair import anew, repair
really, tight, spare = anew.free_bytes, True, me
anew.free_bytes = repair.free_bytes = lambda: 8 if tight else really()
"""
FILE_BYTES = 100

BREAKS_ONCE = """
from nbdist.engine.frameworks.jax.repair import repair as module
unbroken = module.{part}
def broken(*arguments, **options):
    module.{part} = unbroken
    raise MemoryError("second")
if me == 1:
    module.{part} = broken
"""


@pytest.fixture
def repairing(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set while a repair is under way."""
    under_way = threading.Event()
    repairing = Health.repairing

    @contextmanager
    def noted(health: Health) -> Iterator[None]:
        with repairing(health):
            under_way.set()
            try:
                yield
            finally:
                under_way.clear()

    monkeypatch.setattr(Health, "repairing", noted)
    yield under_way
    under_way.clear()


@contextmanager
def pressing(while_set: threading.Event) -> Iterator[list[int]]:
    """Presses Ctrl-C again and again while something lasts, as an impatient person does."""
    pressed: list[int] = []
    over = threading.Event()

    def press() -> None:
        while not over.wait(PRESS_SECONDS):
            if while_set.is_set():
                pressed.append(1)
                signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield pressed
    finally:
        over.set()
        thread.join()


def whole(world: World) -> None:
    """In step, all values as before, and the training goes on."""
    assert world.session.out_of_step is False
    world.unchanged()
    world.in_use("jax", 4)
    world.goes_on("jax")


def refused(world: World, code: str) -> Said:
    """A cell that fails, after which the repair does not succeed either; the session says it is out of step."""
    said = world.attempt(code)
    assert str(said.error).startswith("Process 1 raised ValueError")
    assert "out of step" in str(said.notice)
    assert world.session.out_of_step is True
    return said


def test_ctrl_c_during_a_repair_does_not_end_it_halfway(
    two: World, repairing: threading.Event
) -> None:
    shown = Shown()
    with (
        pressing(repairing) as pressed,
        pytest.raises(ProcessError, match="Process 1 raised ValueError"),
    ):
        two.session.run(FAILS, timeout_s=LIMIT_SECONDS, renderer=shown)
    assert "was repaired in" in str(two.session.why())
    assert len(pressed) > 3
    whole(two)


def test_without_room_for_the_copies_nothing_is_changed_and_it_is_said_where(two: World) -> None:
    two.run(NO_MEMORY)
    pid = {p.process_id: p.pid for p in two.session.snapshot().processes}[1]
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_BYTES, limits[1]))
    said = refused(two, FAILS)
    assert "process 1" in str(said.notice)
    # It can be read all the same.
    assert np.array_equal(two.session.pull("small"), np.arange(64))
    two.run("del spare")  # as the error says
    with pytest.raises(RecoveryError, match="finds no room in memory, nor on disk"):
        two.session.recover()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    assert two.session.recover().code == "repaired"  # with copies on disk
    two.run("tight = False")
    whole(two)


@pytest.mark.parametrize("part", ["save", "find_old", "backend.join", "become", "add_twins"])
def test_a_second_failure_in_a_repair_leaves_all_to_the_next_one(
    two: World, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "REJOIN_SECONDS", SOON_SECONDS)
    two.run(BREAKS_ONCE.format(part=part))
    said = refused(two, FAILS)
    assert "second" in str(said.notice)
    assert "session.recover() brings" in str(said.notice)
    assert two.session.recover().code == "repaired"
    whole(two)


def test_a_session_that_is_in_step_is_left_as_it_is(two: World) -> None:
    services = two.session._life.engines.cluster.agents.home.numbers(Coordinating)
    assert two.session.recover().code == "in step"
    assert two.session._life.engines.cluster.agents.home.numbers(Coordinating) == services
    whole(two)
