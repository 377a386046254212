"""Which arrays a repair gives up that have no values yet, and which it waits for."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from nbdist.engine.frameworks.jax.repair import repair as repair_module
from nbdist.engine.frameworks.jax.repair.repair import Repair
from nbdist.engine.frameworks.jax.step.dispatched import Dispatched
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN

COMMON = 5


class Array:
    """One that lies on devices of several processes."""

    def __init__(self, *, local=False):
        self.is_fully_addressable = local


@pytest.fixture
def step():
    dispatched = Dispatched()
    dispatched.restart(3)
    dispatched._unhook = lambda: None
    return SimpleNamespace(stuck=False, dispatched=dispatched)


def given_up(step, array, *, until=math.inf):
    repair = Repair({}, folder=Path(), step=step)
    return repair._hopeless(array, common=COMMON, until=until)


def of(step, origin):
    array = Array()
    step.dispatched.origins.note(array, origin)
    return array


@pytest.mark.parametrize("stuck", [False, True])
def test_what_no_program_computes_is_never_given_up(step, stuck):
    # Under load JAX says of such an array, too, that it is not ready; it is there in a moment.
    step.stuck = stuck
    assert not given_up(step, of(step, (3, 0, "7 x_train")), until=-math.inf)
    assert not given_up(step, of(step, (1, 0, "7 x_train")), until=-math.inf)


def test_what_only_some_have_sent_is_given_up_at_once(step):
    assert given_up(step, of(step, (3, COMMON + 1, "0")))
    assert not given_up(step, of(step, (3, COMMON, "0")))
    assert not given_up(step, of(step, (2, COMMON + 1, "0")))


def test_what_is_not_known_is_given_up_after_a_while(step):
    noted, new = of(step, UNKNOWN), Array()
    for array in (noted, new):
        assert not given_up(step, array)
        assert given_up(step, array, until=-math.inf)
        assert not given_up(step, Array(local=True), until=-math.inf)


def test_what_waits_for_a_stuck_collective_is_given_up_at_once(step):
    step.stuck = True
    for array in (of(step, (3, 1, "0")), Array(), Array(local=True)):
        assert given_up(step, array)


def test_a_save_gives_up_what_is_not_known_only_after_a_while(step, monkeypatch):
    asked = []

    def save(arrays, *, folder, hopeless):
        asked.append(hopeless(Array()))
        raise KeyboardInterrupt

    monkeypatch.setattr(repair_module, "save", save)
    monkeypatch.setattr(repair_module, "LastFrames", lambda: None)
    for seconds in (math.inf, -math.inf):
        monkeypatch.setattr(repair_module, "UNKNOWN_SECONDS", seconds)
        with pytest.raises(KeyboardInterrupt):
            Repair({}, folder=Path(), step=step).save(COMMON)
    assert asked == [False, True]
