"""Keras waits for logs in Python, where an interrupt is heard; without its private function it does as shipped."""

from __future__ import annotations

import threading
import time

import keras
import pytest
from keras.src.utils import python_utils

from nbdist.engine.frameworks.keras import guards


class Computed:
    """An array that is ready after a while."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def is_ready(self) -> bool:
        return time.monotonic() >= self._at

    def __float__(self) -> float:
        assert self.is_ready(), "waits where no interrupt arrives"
        return 0.5

    @property
    def shape(self) -> tuple[()]:
        return ()


@pytest.fixture(autouse=True)
def _as_shipped_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_utils, "pythonify_logs", python_utils.pythonify_logs)


def test_logs_are_waited_for_before_they_become_numbers() -> None:
    assert guards.place()
    guards.until_ready({"loss": (late := Computed(0.05)), "accuracy": 0.5})
    assert late.is_ready()
    assert python_utils.pythonify_logs({"loss": 0.25}) == {"loss": 0.25}


def test_other_threads_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert guards.place()
    waited = []
    monkeypatch.setattr(guards, "until_ready", waited.append)
    thread = threading.Thread(target=python_utils.pythonify_logs, args=({"loss": 0.25},))
    thread.start()
    thread.join()
    assert waited == []
    python_utils.pythonify_logs({"loss": 0.25})
    assert waited == [{"loss": 0.25}]


def test_without_the_private_function_nothing_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keras.__version__
    monkeypatch.delattr(python_utils, "pythonify_logs")
    assert not guards.place()
