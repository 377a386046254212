"""Engines without processes: what each would answer is given, what it is asked is written down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nbdist.cells.facts import Facts
from nbdist.errors import GoneError


class Request:
    """A request that is answered at once, or never."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def ready(self) -> bool:
        return self._answer is not None

    def wait(self, timeout_s: float) -> None:
        if not self.ready():
            time.sleep(min(timeout_s, 0.001))

    def get(self, timeout_s: float | None = None) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        if self._answer is None:
            raise TimeoutError
        return self._answer, []


class FakeEngines:
    """Two processes that are in step; `answers` maps a call to a function of process id and arguments.

    An answer that is an exception is raised, one that is None never comes.
    """

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self.answers: dict[str, Callable[..., Any]] = {
            "step": lambda p, **_: sent(),
            "under_way": lambda p, **_: {"arrays": 0, "progress": [0, 0]},
            "labels": lambda p, **_: {"labels": [], "kinds": []},
            "prove": lambda p, **_: {"passed": True, "alike": True, "error": None},
            "versions": lambda p, **_: {
                "versions": {},
                "reasons": {},
                "unnamed": [],
                "generation": 0,
            },
            "forget": lambda p, **_: {"lost": []},
            **answers,
        }
        self.asked: list[tuple[str, int]] = []
        self.facts = Facts(
            workers=frozenset({0, 1}), way_on="%dist_recover tries again.", proves=True
        )
        self.link = SimpleNamespace(exits={}, agents=SimpleNamespace(all=["a parent"]))
        self.plan = SimpleNamespace(hosts={0: "h1", 1: "h2"}, framework="jax")
        self.settling = threading.RLock()
        self.hurry = threading.Event()
        self.learned: list[Any] = []
        self.last_cell = 4
        self.proves = True
        self.in_step_at: tuple[int, int] | None = None
        self.in_repair: list[bool] = []

    def send(self, process_id: int, name: str, **arguments: Any) -> Request:
        self.asked.append((name, process_id))
        return Request(self.answers[name](process_id, **arguments))

    def next_number(self) -> int:
        return 7

    def take_back(self) -> None:
        """None of these was given up and has come back."""

    def repairing(self, repairing: bool) -> None:
        self.in_repair.append(repairing)

    def recovered(self, done: str | None = None) -> None:
        self.learned.append(("in step", done))
        self.facts = self.facts.recovered()

    def out_of_step(self, cell: int, why: str) -> None:
        self.learned.append((cell, why))
        self.facts = replace(self.facts, since=cell, why=why)

    def names(self) -> list[str]:
        """What was asked, each call once."""
        return list(dict.fromkeys(name for name, _ in self.asked))


def sent(programs: int = 0, names: int = 0, *, counted: bool = True) -> dict[str, Any]:
    """What a process says it has sent."""
    return {
        "programs": programs,
        "names": names,
        "kinds": 0,
        "parts": 0,
        "counted": counted,
        "generation": 1,
        "serial": programs,
        "proven": None,
        "trail": [],
        "earliest": None,
    }


def gone() -> GoneError:
    return GoneError("process 1 (host h2): Engine 1 died")
