"""Looks at the processes from the notebook: expressions, arrays, stacks, and displays that follow the session."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nbdist.contract.asides import NativeStacks, Threads, ThreadStack
from nbdist.contract.calls.engine import EvaluatingExpression
from nbdist.contract.calls.inspection import (
    CompileCall,
    CountNan,
    FindLayout,
    FindShards,
    ModelFound,
    Summarize,
)
from nbdist.contract.calls.values import Offer
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import ArrayError, SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.start_options import Rules
from nbdist.notation import count_text, processes_text
from nbdist.session.cells.targets import Targets
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.expression import ask_all_workers, ask_some, is_name
from nbdist.session.running import Cells
from nbdist.session.values.flow import Answers
from nbdist.spelling import command
from nbdist.view.feed import Feed
from nbdist.view.picture import Picture
from nbdist.view.program import Explained
from nbdist.view.shards import Layout, Shards, nan_text, shown_values

A = TypeVar("A")


class Evaluation:
    """Evaluation of expressions on idle processes.

    One process evaluates a plain name. Any other expression may compute, so all processes evaluate it together.

    Args:
      engines: The processes.
      cells: The session's cells, whose ends are handled before an expression is evaluated.
      rules: The session's rules.
    """

    def __init__(self, engines: EngineGroup, cells: Cells, rules: Rules) -> None:
        self._engines = engines
        self._cells = cells
        self._rules = rules

    def first(self, call: EvaluatingExpression[A], *, timeout_s: float) -> A:
        """Return the lowest process's answer to an expression; raise as `of` does."""
        first = self._engines.choice.targets(None)[:1]
        answers = self.of(call, first, timeout_s=timeout_s)
        return answers[first[0]][0]

    def of(
        self, call: EvaluatingExpression[A], ids: Sequence[int], *, timeout_s: float
    ) -> Answers[A]:
        """Return the processes' answers to an expression, and the buffers beside them.

        Args:
          call: The call with the expression.
          ids: The processes whose answers are wanted.
          timeout_s: How many seconds they may take.

        Raises:
          SessionError: A process is busy, or did not answer in time; or the expression may compute, and the
            processes are not in step; or it may use names in doubt (raised only once).
          NbdistError: The error that a process raised.
        """
        engines = self._engines
        together = engines.proves and not is_name(call.expression)
        with engines.turn.taken(timeout_s=timeout_s):
            if together:
                self._cells.bring_in_step(call.expression)
            else:
                self._cells.print_ends()
            self.refuse_while_busy(ids)
            if together or isinstance(call, Offer):
                # To bring a value here is to use it.
                self._cells.refuse_unsure(f"_ = ({call.expression})")
            if not together:
                return ask_some(engines, call, ids, timeout_s=timeout_s)
            return ask_all_workers(
                engines, call, wanted=ids, timeout_s=timeout_s, rules=self._rules
            )

    def refuse_while_busy(self, ids: Sequence[int]) -> None:
        """Raise if one of these processes is in a cell.

        Raises:
          SessionError: A process is; the text says in which cell.
        """
        busy = self._cells.background.busy()
        inside = next((p for p in ids if p in busy), None)
        if inside is not None:
            raise SessionError(
                f"{self._engines.reports.doing(inside)}: its values are available when that has ended. "
                f"{command('sync')} waits for it, {command('stop_at_step')} or {command('interrupt')} ends it."
            )


REPORTED_SECONDS = 2.0
"""Seconds a new array may take to be reported; processes look at least once a second."""

AGAIN_SECONDS = 0.005
"""How often to look whether a new array has been reported."""


class Looks:
    """The answers of `Session.shards`, `layout`, `nan`, `explain` and `values`.

    `evaluation` asks idle processes; while a process is in a cell, `shards` and `layout` use its reports.
    """

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
        workers = engines.choice.targets(None)
        found = self._evaluation.of(CountNan(expression=expression), workers, timeout_s=timeout_s)
        return nan_text(expression, {p: answer for p, (answer, _) in found.items()})

    def explain(self, expression: str, *, timeout_s: float) -> Explained:
        """Return the program that a call would run; see `nbdist.session.session.Session.explain`."""
        engines = self._engines
        workers = engines.choice.targets(None)
        found = self._evaluation.of(
            CompileCall(expression=expression), workers, timeout_s=timeout_s
        )
        answers = {p: answer for p, (answer, _) in found.items()}
        # Evaluating the call's arguments may have made arrays, which are to be shown.
        engines.reports.look(self._cells.background.busy())
        return Explained.of(
            expression.strip(), answers, engines.plan.hosts, session=self._snapshot()
        )

    def values(self, path: str, *, timeout_s: float) -> dict[str, Any]:
        """Return a summary of an array's values; see `nbdist.session.session.Session.values`."""
        engines = self._engines
        workers = engines.choice.targets(None)
        self._evaluation.refuse_while_busy(workers)
        found = ask_some(engines, Summarize(path=path), workers, timeout_s=timeout_s)
        return shown_values(path, {p: answer for p, (answer, _) in found.items()})

    def _snapshot(self) -> Snapshot:
        return self._engines.monitor.snapshot()

    def _elsewhere(self, path: str) -> Shards | None:
        """Return arrays that other processes have reported under a path, if the asked process has none."""
        engines = self._engines
        first = engines.choice.targets(None)[0]
        while_ = f"there is no such array on {engines.where(first)}"
        engines.reports.look(self._cells.background.busy())
        found = Shards.seen(path, self._snapshot(), while_=while_)
        if found is None or any(not a.processes or first in a.processes for a in found.arrays):
            return None
        return found

    def _layout_reported(self, path: str, doing: str) -> Layout | Shards:
        """Return what `layout` returns, from the last reports."""

        def look(now: Snapshot) -> Layout | Shards | None:
            model = Layout.seen(path, now, while_=doing)
            return Shards.seen(path, now, while_=doing) if model is None else model

        found: Layout | Shards | None = self._when_reported(look)
        if found is None:
            raise _unreported(path, doing)
        return found

    def _when_reported(self, look: Callable[[Snapshot], Any]) -> Any:
        """Return what `look` finds in the reports, with a moment's wait for arrays that have just been made."""
        deadline = time.monotonic() + REPORTED_SECONDS
        while not (found := look(self._snapshot())) and time.monotonic() < deadline:
            time.sleep(AGAIN_SECONDS)
        return found

    def _doing(self) -> str | None:
        """Return in which cell the lowest busy process is; None if none is in a cell."""
        engines = self._engines
        sent = self._cells.background.busy()
        inside = next(
            (p for p in sorted(engines.plan.hosts) if p in sent or engines.reports.in_cell(p)), None
        )
        if inside is None or engines.reports.in_cell(inside):
            return None if inside is None else engines.reports.doing(inside)
        # The process was sent a cell, and has not reported that yet.
        return f"{engines.where(inside)} is in cell {sent[inside]}"


def _unreported(expression: str, doing: str) -> SessionError:
    return SessionError(
        f"{doing}. Until it ends, only what was reported can be shown, and {expression!r} was not: "
        f"{command('mesh')} lists what was."
    )


def stacks(engines: EngineGroup, on: Targets, *, native: bool) -> str:
    """Return the stacks of processes, also while they run a cell; see `nbdist.session.session.Session.stacks`."""
    asked = engines.choice.there(on)
    if native:
        read = engines.asides.native_stacks(asked)
        return native_text(read, [p for p in asked if p not in read])
    found = engines.asides.stacks(asked)
    return stacks_text(found, [p for p in asked if p not in found], whole=on is not None)


def stacks_text(found: Mapping[int, Threads], missing: Sequence[int], *, whole: bool) -> str:
    """Return the threads of each process, outermost call first; equal ones appear once.

    Args:
      found: The threads, by process id.
      missing: Processes that have not answered.
      whole: Show all threads; else the main thread, and how many others there are.
    """
    texts = {p: _threads_text(one.threads, whole=whole) for p, one in found.items()}
    return _by_text(texts, missing)


def native_text(found: Mapping[int, NativeStacks], missing: Sequence[int]) -> str:
    """Return the native stack of each process, or why py-spy could not read it; equal ones appear once."""
    texts = {p: one.text or f"  no native stack: {one.error}" for p, one in found.items()}
    return _by_text(texts, missing)


def _by_text(texts: Mapping[int, str], missing: Sequence[int]) -> str:
    """Return each text once, below the processes that have it; then the processes that have not answered."""
    groups: dict[str, list[int]] = {}
    for process_id, text in sorted(texts.items()):
        groups.setdefault(text, []).append(process_id)
    parts = [f"{processes_text(ids)}\n{text}" for text, ids in groups.items()]
    if missing:
        parts.append(
            f"{processes_text(missing)}   no answer: the interpreter is busy in one long call, or the process or "
            "its host is stopped"
        )
    return "\n\n".join(parts)


def _threads_text(threads: Sequence[ThreadStack], *, whole: bool) -> str:
    shown = threads if whole else threads[:1]
    lines = []
    for thread in shown:
        lines += [f"  {thread.name}", *(f"    {line}" for line in thread.lines)]
    if len(threads) > len(shown):
        others = count_text(len(threads) - len(shown), "other thread")
        lines.append(f"  and {others}: {command('stacks')} with a process shows them")
    return "\n".join(lines)


MAX_PICTURES = 8
"""How many pictures are kept up to date, the newest ones; older ones stay as they are."""


class Views:
    """The displays of a session, across restarts: its live view, and pictures in cells.

    Args:
      feed: Sends the snapshots to the live view; None: a new one.
    """

    def __init__(self, feed: Feed | None) -> None:
        self.feed = feed or Feed()
        self._pictures: list[Picture] = []
        self._open: LifeChannel | None = None

    def picture(self, snapshot: Callable[[], Snapshot], *, path: str | None) -> Picture:
        """Return a picture that follows the session.

        Args:
          snapshot: Returns the present snapshot.
          path: The path of the array that is selected in the picture, or None.
        """
        picture = Picture(self.feed, snapshot, path=path)
        self._pictures = [*self._pictures[-MAX_PICTURES + 1 :], picture]
        return picture

    def channel(self) -> LifeChannel:
        """Return the channel to which the processes of one life publish."""
        return LifeChannel(self)

    def publish(self, snapshot: Snapshot, channel: LifeChannel) -> None:
        """Show a new snapshot; called on a monitor's thread."""
        if self._open is channel:
            self.feed.push(snapshot)
            for picture in self._pictures:
                picture.follow(snapshot)

    def open(self, channel: LifeChannel) -> None:
        """Follow this channel from now on, and no other."""
        self._open = channel


class LifeChannel:
    """The snapshots of the processes of one life, shown while this channel is the open one."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def publish(self, snapshot: Snapshot) -> None:
        """Publish a new snapshot; called on the monitor's thread."""
        self._views.publish(snapshot, self)

    def open(self, snapshot: Snapshot | None = None) -> None:
        """Make the views follow this channel from now on.

        Args:
          snapshot: A snapshot to show at once, if there is one.
        """
        self._views.open(self)
        if snapshot is not None:
            self.publish(snapshot)
