"""Looks at the arrays of the processes: asks idle ones, or takes what they have reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from nbdist.contract.calls.arrays import (
    CompileCall,
    CountNan,
    FindLayout,
    FindShards,
    ModelFound,
    Summarize,
)
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import ArrayError, SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.session.engine_group import EngineGroup
from nbdist.session.evaluating import Evaluation
from nbdist.session.recovery.expression import ask_some
from nbdist.session.running import Cells
from nbdist.spelling import command
from nbdist.view.layout import Layout
from nbdist.view.program import Explained
from nbdist.view.shards import Shards
from nbdist.view.text import nan_text
from nbdist.view.values import shown_values

REPORTED_SECONDS = 2.0
"""How long a new array may take to be reported; processes look at least once a second."""

AGAIN_SECONDS = 0.005
"""How often to check whether it has been reported."""


class Looks:
    """Answers `Session.shards`, `layout`, `nan`, `explain` and `values`; `evaluation` asks idle processes."""

    def __init__(self, engines: EngineGroup, cells: Cells, evaluation: Evaluation) -> None:
        self._engines = engines
        self._cells = cells
        self._evaluation = evaluation

    def shards(self, expression: str, *, timeout_s: float) -> Shards:
        """Return where the pieces of arrays lie; see `nbdist.session.session.Session.shards`."""
        doing = self._doing()
        if doing is not None:
            path = expression.strip()
            shards: Shards | None = self._when_reported(
                lambda now: Shards.seen(path, now, while_=doing)
            )
            if shards is None:
                raise _unreported(expression, doing)
            return shards
        try:
            answer = self._evaluation.first(FindShards(expression=expression), timeout_s=timeout_s)
        except ArrayError:
            elsewhere = self._elsewhere(expression.strip())
            if elsewhere is None:
                raise
            return elsewhere
        return Shards.of(answer, self._snapshot())

    def layout(self, expression: str, *, timeout_s: float) -> Layout | Shards:
        """Return the variables of a model and their rules; see `nbdist.session.session.Session.layout`."""
        doing = self._doing()
        if doing is not None:
            return self._layout_reported(expression.strip(), doing)
        answer = self._evaluation.first(FindLayout(expression=expression), timeout_s=timeout_s)
        if isinstance(answer, ModelFound):
            return Layout.of(answer, self._snapshot())
        return Shards.of(answer, self._snapshot())

    def nan(self, expression: str, *, timeout_s: float) -> str:
        """Count the NaN and infinite values of arrays; see `nbdist.session.session.Session.nan`."""
        engines = self._engines
        framework = framework_named(engines.plan.framework)
        if not framework.counts_nan:
            raise SessionError(
                f"NaN are counted in JAX arrays; this session computes with {framework.title}."
            )
        workers = [p for p in engines.choice.targets(None) if p in engines.facts.workers]
        found = self._evaluation.of(CountNan(expression=expression), workers, timeout_s=timeout_s)
        return nan_text(expression, {p: answer for p, (answer, _) in found.items()})

    def explain(self, expression: str, *, timeout_s: float) -> Explained:
        """Return the program that a call would run; see `nbdist.session.session.Session.explain`."""
        engines = self._engines
        workers = [p for p in engines.choice.targets(None) if p in engines.facts.workers]
        found = self._evaluation.of(
            CompileCall(expression=expression), workers, timeout_s=timeout_s
        )
        answers = {p: answer for p, (answer, _) in found.items()}
        # Shows the arrays after the call: evaluating its arguments may have made some.
        engines.reports.look(self._cells.background.busy())
        return Explained.of(
            expression.strip(), answers, engines.plan.hosts, session=self._snapshot()
        )

    def values(self, path: str, *, timeout_s: float) -> dict[str, Any]:
        """Return a summary of an array's values; see `nbdist.session.session.Session.values`."""
        engines = self._engines
        workers = [p for p in engines.choice.targets(None) if p in engines.facts.workers]
        self._evaluation.refuse_while_busy(workers)
        found = ask_some(engines, Summarize(path=path), workers, timeout_s=timeout_s)
        return shown_values(path, {p: answer for p, (answer, _) in found.items()})

    def _snapshot(self) -> Snapshot:
        return self._engines.monitor.snapshot()

    def _elsewhere(self, path: str) -> Shards | None:
        """Return the arrays that only processes other than the asked one have reported under a path."""
        engines = self._engines
        first = engines.choice.targets(None)[0]
        while_ = f"there is no such array on {engines.where(first)}"
        engines.reports.look(self._cells.background.busy())
        found = Shards.seen(path, self._snapshot(), while_=while_)
        if found is None or any(not a.processes or first in a.processes for a in found.arrays):
            return None
        return found

    def _layout_reported(self, path: str, doing: str) -> Layout | Shards:
        """Return the same as `layout`, from reports."""

        def look(now: Snapshot) -> Layout | Shards | None:
            model = Layout.seen(path, now, while_=doing)
            return Shards.seen(path, now, while_=doing) if model is None else model

        found: Layout | Shards | None = self._when_reported(look)
        if found is None:
            raise _unreported(path, doing)
        return found

    def _when_reported(self, look: Callable[[Snapshot], Any]) -> Any:
        """Return what `look` finds in the reports, waiting a moment for arrays that were made just before."""
        deadline = time.monotonic() + REPORTED_SECONDS
        while not (found := look(self._snapshot())) and time.monotonic() < deadline:
            time.sleep(AGAIN_SECONDS)
        return found

    def _doing(self) -> str | None:
        """Return in which cell the lowest busy process is; None where none is in a cell."""
        engines = self._engines
        sent = self._cells.background.busy()
        inside = next(
            (p for p in sorted(engines.plan.hosts) if p in sent or engines.reports.in_cell(p)), None
        )
        if inside is None or engines.reports.in_cell(inside):
            return None if inside is None else engines.reports.doing(inside)
        # It was sent a cell, and has not reported that yet.
        return f"{engines.where(inside)} is in cell {sent[inside]}"


def _unreported(expression: str, doing: str) -> SessionError:
    return SessionError(
        f"{doing}. Until it ends, only what was reported can be shown, and {expression!r} was not: "
        f"{command('mesh')} lists what was."
    )
