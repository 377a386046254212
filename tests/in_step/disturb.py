"""Brings a session into a situation, and looks whether it has come out of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from nbdist.errors import CellTimeout
from tests.in_step.table import Failing, Situation
from tests.in_step.world import LIMIT_SECONDS, Said, Shown, World


def go_through(world: World, situation: Situation) -> None:
    """The situation, all values after it, and the training that goes on."""
    world.in_use(situation.training, 4)
    world.train(situation.training, 2)
    said = disturb(world, situation.failing)
    print(said.text)  # shown where what follows fails
    assert world.session.out_of_step is False, said.text
    assert said.error is not None, said.text
    world.unchanged()
    world.goes_on(situation.training)


def disturb(world: World, failing: Failing) -> Said:
    """Runs the cell that fails."""
    if failing.interrupt:
        return interrupted(world, failing.code, lambda shown: "in it" in shown.text)
    if failing.timeout_s is None:
        return world.attempt(failing.code, on=failing.on)
    said = world.attempt(failing.code, on=failing.on, timeout_s=failing.timeout_s)
    assert isinstance(said.error, CellTimeout), said
    return said


def interrupted(world: World, code: str, when: Callable[[Shown], bool], **options: Any) -> Said:
    """Runs a cell, and interrupts the notebook, as a person does, when a condition holds."""
    shown, stop, before = Shown(), threading.Event(), world.session.why()

    def press() -> None:
        while not (ready := when(shown)) and not stop.wait(0.02):
            pass
        if ready:
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    try:
        world.session.run(code, timeout_s=LIMIT_SECONDS, renderer=shown, **options)
    except KeyboardInterrupt as caught:
        notice = world.session.why()
        return Said(caught, shown.text, None if notice is before else notice)
    finally:
        stop.set()
        thread.join()
    raise AssertionError("the interrupt did not end the cell")
