"""Before which step processes leave that were interrupted in different ones."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from nbdist.engine.cell import interrupts as stop
from nbdist.engine.cell.interrupts import AgreedStop
from nbdist.engine.cell.running import CurrentCell

LIMIT_SECONDS = 60.0


class Store:
    """The coordinator's key-value store, in this process; `pause` says how many seconds an answer takes."""

    def __init__(self, pause: Callable[[], float] = lambda: 0.0) -> None:
        self.entries: dict[str, str] = {}
        self.lock = threading.Lock()
        self.pause = pause

    def key_value_set(self, key: str, value: str, *, allow_overwrite: bool) -> None:
        time.sleep(self.pause())
        with self.lock:
            if key in self.entries and not allow_overwrite:
                raise RuntimeError("ALREADY_EXISTS")
            self.entries[key] = value

    def key_value_dir_get(self, folder: str) -> list[tuple[str, str]]:
        with self.lock:
            found = [(k, v) for k, v in self.entries.items() if k.startswith(f"{folder}/")]
        time.sleep(self.pause())
        return found


class Training:
    """Processes that train on threads; a step ends when all have begun it, as one with a collective does.

    Args:
      pressed: By process, at which step its interrupt comes.
      together: Whether steps need all processes.
    """

    def __init__(
        self, pressed: list[int], *, together: bool = True, store: Store | None = None
    ) -> None:
        self.store = store or Store()
        self.pressed = pressed
        self.begun = [0] * len(pressed)
        self.left: dict[int, int] = {}
        self.came = threading.Condition()
        self.together = together

    def process(self, me: int, pause: Callable[[], float]) -> None:
        cell = CurrentCell()
        cell.started(1, "fit()", run=7, targets=tuple(range(len(self.pressed))))
        agreed = AgreedStop(lambda: self.store, cell, lambda: me)
        for step in range(1, 10_000):
            agreed.step(range(len(self.pressed)))
            if step >= self.pressed[me] and agreed.leave():
                self.left[me] = step
                return
            with self.came:
                self.begun[me] = step
                self.came.notify_all()
                if self.together:
                    assert self.came.wait_for(lambda: min(self.begun) >= step, LIMIT_SECONDS)  # noqa: B023
            time.sleep(pause())

    def run(self, pause: Callable[[], float]) -> set[int]:
        """Before which steps they have left."""
        threads = [
            threading.Thread(target=self.process, args=(p, pause), daemon=True)
            for p in range(len(self.pressed))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        assert len(self.left) == len(self.pressed)
        return set(self.left.values())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("together", [True, False])
def test_all_leave_before_the_same_step(seed: int, together: bool) -> None:
    chance = random.Random(seed)
    first = chance.randrange(1, 5)
    training = Training([first + chance.randrange(3) for _ in range(3)], together=together)
    assert len(training.run(lambda: chance.uniform(0, 0.01))) == 1


@pytest.mark.parametrize("seed", range(8))
def test_no_answer_of_the_board_is_too_late(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience ends while others decide to leave, and what was read is old when it comes."""
    monkeypatch.setattr(stop, "PATIENCE_SECONDS", 0.001)
    chance = random.Random(seed)
    for _ in range(10):
        store = Store(lambda: chance.choice([0.0, 0.0005, 0.002]))
        training = Training([chance.randrange(1, 4) for _ in range(3)], store=store)
        assert len(training.run(lambda: chance.uniform(0, 0.001))) == 1


def alone(store: Store | None, *, run: int | None = 7) -> AgreedStop:
    cell = CurrentCell()
    if run is not None:
        cell.started(1, "fit()", run=run, targets=(0, 1))
    agreed = AgreedStop(lambda: store, cell, lambda: 0)
    agreed.step((0, 1))
    return agreed


def test_where_nothing_can_be_agreed_on_it_leaves_at_once() -> None:
    assert alone(None).leave() is True
    assert alone(Store(), run=None).leave() is True
    without = alone(Store())
    without.step(())
    assert without.leave() is True


def test_one_whose_coordinator_is_gone_leaves() -> None:
    class Gone(Store):
        def key_value_dir_get(self, folder: str) -> list[tuple[str, str]]:
            raise RuntimeError("UNAVAILABLE")

    assert alone(Gone()).leave() is True


def test_one_for_which_the_others_do_not_come_goes_on_and_waits_longer_each_time() -> None:
    agreed = alone(Store())
    took = []
    for _ in range(3):
        began = time.monotonic()
        assert agreed.leave() is False
        took.append(time.monotonic() - began)
        agreed.step((0, 1))
    assert took[0] >= 0.05 and took[1] >= 0.1 and took[2] >= 0.2


def test_a_later_cell_is_agreed_on_anew() -> None:
    store = Store()
    first = alone(store)
    store.key_value_set("nbdist/stops/7/at/1", "1", allow_overwrite=True)
    assert first.leave() is True
    later = alone(store, run=8)
    assert later.leave() is False


def test_a_stop_that_was_asked_for_is_raised_with_its_step() -> None:
    agreed = alone(None)
    assert agreed.ask(8) is None, "another cell"
    agreed.step((0, 1))
    assert agreed.ask(7) == 2
    with pytest.raises(KeyboardInterrupt, match="stopped before step 3"):
        agreed.step((0, 1))


def test_a_stop_of_an_earlier_cell_does_not_count() -> None:
    cell = CurrentCell()
    cell.started(1, "fit()", run=7, targets=(0, 1))
    agreed = AgreedStop(lambda: None, cell, lambda: 0)
    assert agreed.ask(7) == 0
    cell.started(2, "fit()", run=8, targets=(0, 1))
    agreed.step((0, 1))
    assert agreed.begun == 1
