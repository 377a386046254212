"""Engines without processes: what each would answer is given, what it is asked is written down."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any, Self

from msgspec import structs

from nbdist.contract.asides import Aside
from nbdist.contract.calls import Call, Done
from nbdist.contract.calls.stepping import (
    Forgotten,
    Labels,
    Proven,
    Sent,
    Trail,
    UnderWay,
    Versions,
)
from nbdist.contract.iopub import CellStep
from nbdist.contract.snapshot import Activity
from nbdist.errors import GoneError, Notice, SessionError
from nbdist.monitor.states import Known
from nbdist.notation import where_text
from nbdist.session.cells.doubt import MadeIn, nowhere
from nbdist.session.cells.facts import Health, LifeState, ProcessFacts
from nbdist.session.engine_group import EngineGroup
from nbdist.session.reports import Reports
from nbdist.session.values.copies import Copies
from tests.builders.hosts import plan_of
from tests.builders.reports import IDLE


class Pending:
    """A request that is answered at once, or never."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.computed = False

    def answer(self, answer: Any, *, computed: bool = False) -> None:
        """The answer comes after all."""
        self._answer, self.computed = answer, computed

    def ready(self) -> bool:
        return self._answer is not None

    def answered(self) -> bool:
        return self.ready() and not isinstance(self._answer, GoneError)

    def wait(self, timeout_s: float) -> None:
        if not self.ready():
            time.sleep(min(timeout_s, 0.001))

    def get(self, timeout_s: float | None = None) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        if self._answer is None:
            raise TimeoutError
        return self._answer, []


class FakeMonitor:
    """A monitor that no process reports to.

    `reported` is what each has reported last, by process id; `shown` what was to be shown of them, in order.
    """

    def __init__(self) -> None:
        self.reported: dict[int, Activity] = dict.fromkeys((0, 1), IDLE)
        self.shown: list[Known] = []
        self.at_rest: list[tuple[int, int]] = []
        self.waited_for: dict[int, int] = {}

    def activity(self, process_id: int) -> Activity | None:
        return self.reported.get(process_id)

    def held(self, process_id: int) -> None:
        return None

    def silence(self, process_id: int) -> float:
        return 0.0

    def know(self, known: Known) -> None:
        self.shown.append(known)

    def rest(self, process_ids: Iterable[int], cell: int) -> None:
        self.at_rest += [(process_id, cell) for process_id in process_ids]

    def wait_for(self, sequences: Mapping[int, int], *, timeout_s: float) -> None:
        self.waited_for = dict(sequences)

    @property
    def repairing(self) -> list[bool]:
        """Whether a repair was shown, each change once."""
        return [repairing for repairing, _ in groupby(known.repairing for known in self.shown)]


class FakeEngines:
    """Two processes that are in step; `answers` maps a call to a function of process id and arguments.

    Processes that are lost can be started again where `hosts_there` says so.
    An answer that is an exception is raised; one that is None comes when an interrupt does, as its error. What is
    plain data is read as it would come; `step` may answer the counts alone.
    """

    noticed = EngineGroup.noticed

    def __init__(self, **answers: Callable[..., Any]) -> None:
        self.answers: dict[str, Callable[..., Any]] = {
            "step": lambda p, **_: sent(),
            "under_way": lambda p, **_: UnderWay(arrays=0, progress=(0, 0)),
            "labels": lambda p, **_: Labels(labels=(), kinds=(), given=()),
            "prove": lambda p, **_: Proven(passed=True, alike=True),
            "versions": lambda p, **_: Versions(versions={}, reasons={}, unnamed=(), generation=0),
            "forget": lambda p, **_: Forgotten(lost=()),
            "name_lost": lambda p, **_: Done(),
            **answers,
        }
        self.asked: list[tuple[str, int]] = []
        self.made_in: MadeIn = nowhere
        self.notice: Notice | None = None
        self.lost_texts: dict[str, str] = {}
        self.monitor = FakeMonitor()
        self.plan = plan_of("h1", "h2")
        self.health = Health(self.plan, self.monitor)  # type: ignore[arg-type]
        self.facts = ProcessFacts(
            workers=frozenset({0, 1}), advice="%dist_recover tries again.", proves=True
        )
        self.health.note(ProcessFacts.to, LifeState.RUNNING)
        self.reports = Reports(self.monitor, self.health, self.plan.hosts, self.send)  # type: ignore[arg-type]
        self.asides: list[tuple[Aside[Any], list[int]]] = []
        self.interrupted: list[list[int]] = []
        self.obeys: set[int] = {0, 1}
        self._requests: list[tuple[int, Pending]] = []
        self.hosts_there = False
        agents = SimpleNamespace(
            all=["a parent"], ask=self._aside, controller_end=None, of=self._agent_of
        )
        self.cluster = SimpleNamespace(exits={}, agents=agents)
        self.settling = threading.RLock()
        self.hurry = threading.Event()
        self.turn = SimpleNamespace(taken=lambda **_: contextlib.nullcontext())
        self.facts = replace(self.facts, last_cell=4)
        self.in_step_at: tuple[int, int] | None = None
        self.copies = Copies()
        self.lost_controller: Any = None
        self.lost_service: Any = None

    @property
    def facts(self) -> ProcessFacts:
        return self.health.facts

    @facts.setter
    def facts(self, facts: ProcessFacts) -> None:
        self.health.facts = facts

    @property
    def proves(self) -> bool:
        return self.facts.proves

    exclusive = EngineGroup.exclusive

    def living(self) -> Self:
        """They live."""
        return self

    def send(self, process_id: int, call: Call[Any]) -> Pending:
        self.asked.append((call.NAME, process_id))
        arguments = {one.name: getattr(call, one.name) for one in structs.fields(call)}  # type: ignore[arg-type]
        answer = self.answers[call.NAME](process_id, **arguments)
        if isinstance(answer, Sent):
            answer = trail(answer)
        request = Pending(call.answer_from(answer) if isinstance(answer, dict) else answer)
        self._requests.append((process_id, request))
        return request

    def interrupt(self, process_ids: Sequence[int]) -> None:
        """Ends what those of these do that `obeys` names."""
        self.interrupted.append(list(process_ids))
        for process_id, request in self._requests:
            if process_id in self.obeys.intersection(process_ids) and not request.ready():
                request.answer(SessionError("KeyboardInterrupt: "))

    def _agent_of(self, process_id: int) -> Any:
        return SimpleNamespace(poll=lambda: None if self.hosts_there else 1)

    def _aside(self, what: Aside[Any], process_ids: Sequence[int], *_: Any) -> None:
        self.asides.append((what, list(process_ids)))

    def next_number(self) -> int:
        return 7

    def where(self, process_id: int) -> str:
        return where_text([process_id], self.plan.hosts)

    def names(self) -> list[str]:
        """What was asked, each call once."""
        return list(dict.fromkeys(name for name, _ in self.asked))


def sent(programs: int = 0, names: int = 0, **facts: Any) -> Sent:
    """What a process says it has sent."""
    counts = Sent(
        programs=programs,
        names=names,
        kinds=0,
        parts=0,
        counted=True,
        generation=1,
        serial=programs,
        unsettled=False,
        proven=None,
    )
    return structs.replace(counts, **facts)


def trail(
    counts: Sent,
    *checksums: int,
    earliest: int | None = None,
    parts: Mapping[str, tuple[int, int]] | None = None,
    run: int = 0,
) -> Trail:
    """What it answers when it is asked."""
    return Trail(sent=counts, trail=checksums, earliest=earliest, parts=parts or {}, run=run)


def cell_step(counts: Sent, **facts: Any) -> CellStep:
    """What it says at the end of a cell."""
    return CellStep(number=11, sent=counts, **facts)


def gone() -> GoneError:
    return GoneError("process 1 (host h2): Engine 1 died")
