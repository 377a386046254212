"""One life of a session's processes: from their start, or from an attachment, to their end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nbdist.contract.snapshot import Snapshot
from nbdist.errors import NbdistError, Notice, TurnError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.start_options import Rules
from nbdist.launch.sessions import registry
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.spawn import spawn
from nbdist.notation import capital, count_text, seconds_text
from nbdist.session import resizing
from nbdist.session.asking import AskedAlone
from nbdist.session.cells.history import History, read_history
from nbdist.session.engine_group import EngineGroup
from nbdist.session.keeping import (
    files_brought,
    kept_text,
    running_lines,
    take_over_turn,
    write_down,
)
from nbdist.session.looking import Evaluation, Looks
from nbdist.session.recovery import ensure_in_step, left_unsettled, recover
from nbdist.session.recovery.expression import deliver
from nbdist.session.running import Cells
from nbdist.session.turn import TurnNotes
from nbdist.spelling import Door, through
from nbdist.view.widgets import Event


def describe(engines: EngineGroup, state: str) -> str:
    """Return one line about a start: processes, hosts, devices, and how long it took.

    Args:
      engines: The processes.
      state: `ready` for processes that were started, `attached` for processes that already ran.
    """
    plan = engines.plan
    hosts = set(plan.hosts.values())
    where = engines.host_text(hosts.pop()) if len(hosts) == 1 else count_text(len(hosts), "host")
    chosen = "" if plan.platform_chosen else " (chosen automatically)"
    computes = framework_named(plan.framework).summary(plan, engines.cluster.answers)
    devices = (
        f"{computes}{chosen}"
        if computes is not None
        else f"platform {plan.platform}{chosen}, not initialized"
    )
    version = next(iter(engines.cluster.answers.values())).version
    named = f"{plan.framework} {version}" if version else plan.framework
    return (
        f"{count_text(len(plan.processes), 'process')} on {where}, {devices}, "
        f"{named}, {state} in {seconds_text(engines.seconds_to_start)}"
    )


def remarks(engines: EngineGroup, brought: Iterable[str]) -> list[str]:
    """Return remarks that a person must read about a start, a sentence each, shown below the line about it.

    Args:
      engines: The processes.
      brought: Lines about what the start has done with the user's files.
    """
    found = [f"{one.host}: {one.what}. {one.do}" for one in engines.cluster.warnings]
    found = [*engines.plan.placement.remarks, *brought, *found]
    return [
        *found,
        *framework_named(engines.plan.framework).remarks(engines.plan, engines.cluster.answers),
    ]


TURN_SECONDS = 0.9
"""Seconds a newly attached kernel waits for another kernel's turn before it goes on without a turn."""

WIDGET_SECONDS = 10.0
"""Seconds a person's action on a widget waits for other kernels' cells."""


class Life:
    """The processes, their cells, and all that may be asked of them; created by `begin` or `attach`.

    A restart of the session is the end of one life and the beginning of another.

    Args:
      engines: The processes.
      rules: The session's rules.
      history: The history of its cells.
      number: The highest cell number so far.
      state: As for `nbdist.session.life.describe`.
    """

    def __init__(
        self,
        engines: EngineGroup,
        *,
        rules: Rules,
        history: History,
        number: int = 0,
        state: str,
    ) -> None:
        self.engines = engines
        self.alone = AskedAlone(engines)
        self.cells = Cells(engines, self.alone, rules=rules, history=history, number=number)
        self.evaluation = Evaluation(engines, self.cells, rules)
        self.looks = Looks(engines, self.cells, self.evaluation)
        self.described = describe(engines, state)
        self._session = engines.cluster.session
        self._rules = rules
        self._brought: list[str] = []
        self._remarks: list[str] = []
        engines.widgets.on_event = self._widget_event
        engines.on_replaced = self.write_down
        engines.turn.known = self._known
        engines.turn.on_change = self._take_over

    @classmethod
    def begin(
        cls,
        cluster: Cluster,
        *,
        rules: Rules,
        progress: StartProgress,
        publish: Callable[[Snapshot], None],
        after: Life | None = None,
    ) -> Life:
        """Start processes whose agents have been started.

        Args:
          cluster: Their agents.
          rules: The session's rules.
          progress: As for `nbdist.start`.
          publish: Called with each new snapshot, on the monitor's thread.
          after: The life before this one in the same session, whose history is kept.

        Raises:
          LaunchError: They could not be started; everything is stopped.
        """
        engines = EngineGroup.begin(cluster, progress=progress, publish=publish)
        try:
            history = History(Path(engines.cluster.folder))
            history.cells = list(after.cells.history.cells) if after is not None else []
            life = cls(
                engines,
                rules=rules,
                history=history,
                number=max((cell.number for cell in history.cells), default=0),
                state="ready",
            )
            life._brought = files_brought(engines.cluster.agents)
            unwritten = life.write_down()
        except BaseException:
            engines.stop()
            registry.remove(cluster.session)
            raise
        if engines.plan.keep:
            life._remarks = [unwritten or kept_text(cluster.session)]
        return life

    @classmethod
    def attach(
        cls,
        cluster: Cluster,
        *,
        rules: Rules,
        progress: StartProgress,
        publish: Callable[[Snapshot], None],
    ) -> Life:
        """Take up processes that already run, with their running cells; arguments as for `begin`.

        Raises:
          LaunchError: Their framework could not be initialized; they go on.
        """
        folder = Path(cluster.folder)
        known = read_history(folder)
        numbers = [past.number for past in known.past] + [cell.number for cell in known.running]
        history = History(folder)
        history.cells = known.past
        with contextlib.ExitStack() as failed:
            failed.callback(registry.detach, cluster.session)
            engines = EngineGroup.again(cluster, progress=progress, publish=publish, known=known)
            failed.callback(engines.leave)
            life = cls(
                engines,
                rules=rules,
                history=history,
                number=max(numbers, default=0),
                state="attached",
            )
            failed.callback(life.cells.background.leave)
            failed.callback(engines.turn.close)
            life._resume()
            failed.pop_all()
        return life

    def _known(self) -> tuple[tuple[int, int] | None, bool]:
        """Return the facts for the next kernel: the last program in step, and whether all are in step now."""
        settled = not self.engines.facts.out_of_step and not self.alone.unseen
        return self.engines.in_step_at, settled

    def _take_over(self, before: TurnNotes) -> str | None:
        return take_over_turn(
            self.engines,
            before,
            self.cells.background,
            besides=registry.other_kernels(self._session),
            rules=self._rules,
            ended=self.cells.ended,
        )

    def _resume(self) -> None:
        """Report the cells that still run; if there are none, bring the processes in step.

        If another kernel has its turn, it is left to that kernel.
        """
        engines, cells = self.engines, self.cells
        self._remarks = list(engines.cluster.remarks)
        try:
            with engines.turn.taken(timeout_s=TURN_SECONDS) as done:
                self._remarks += running_lines(cells.regained)
                if engines.proves and not cells.regained and left_unsettled(engines):
                    done = ensure_in_step(engines, automatic=self._rules.recover) or done
                self._remarks += [done] if done else []
        except TurnError:
            return

    @property
    def remarks(self) -> list[str]:
        """Remarks about this start that a person must read, a sentence each."""
        return [*remarks(self.engines.living(), self._brought), *self._remarks]

    def recover(self, *, progress: StartProgress) -> Notice:
        """Bring the processes in step again; see `nbdist.session.session.Session.recover`."""
        with self.engines.turn.taken() as taken_over:
            handled = self.cells.wait_for_ends() or taken_over
            known = self.engines.notice
            if handled is not None and known is not None and not self.engines.facts.out_of_step:
                return known
            done = recover(self.engines, progress=progress)
            self.cells.history.recovered()
        # The record is written by the kernel that started the processes, if any.
        if self.engines.cluster.agents.all:
            self.write_down()
        return done

    def stop(self) -> None:
        """Stop what was started, by handle. A second call does nothing."""
        if self.engines.alive:
            self.cells.background.leave()
            self.engines.stop()
            registry.remove(self._session)

    def leave(self) -> None:
        """Let the processes go on without this kernel. A second call does nothing."""
        if self.engines.alive:
            registry.detach(self._session)
            self.engines.turn.close()  # before the cells are left, since the next kernel is to follow them
            self.cells.background.leave()
            self.engines.leave()

    def resized(
        self,
        asked: Plan,
        *,
        without: Sequence[str],
        publish: Callable[[Snapshot], None],
        progress: StartProgress,
        say: Callable[[str], None],
    ) -> tuple[Life, Notice]:
        """Return another life of this session, on new processes that get the variables of these.

        Args:
          asked: The plan of the new processes.
          without: Hosts of this life that are left out.
          publish: As for `begin`.
          progress: As for `nbdist.start`.
          say: Called with lines about what will change, before anything is started.

        Returns:
          The new life, and what was done, with what is not as before. This life goes on until it is `replaced`.

        Raises:
          NbdistError: This is not possible, or did not succeed; this life goes on.
        """
        began = time.monotonic()
        engines = self.engines
        living = resizing.sources(engines, without)
        lost: tuple[str, ...] = ()
        if engines.facts.out_of_step:
            lost = engines.exclusive(lambda: resizing.drop_uncommon(engines, living, say=say))
        for text in resizing.changes(engines, living[0], len(asked.workers)):
            say(text)
        count, before = len(asked.workers), len(engines.plan.workers)
        what = (
            f"all {count_text(count, 'process')} started again"
            if count == before
            else f"{count_text(count, 'process')} in place of {before}"
        )
        try:
            with engines.health.resizing(what):
                life = Life.begin(
                    spawn(asked, session=self._session),
                    rules=self._rules,
                    progress=progress,
                    publish=publish,
                    after=self,
                )
                try:
                    with engines.settling:
                        done = resizing.bring(engines, life.engines, living, lost)
                except BaseException:
                    life.stop()
                    raise
        except BaseException:
            self.write_down()  # so that the record names these processes again
            raise
        life.engines.health.recovered(unsure=done.doubted)
        title = capital(f"{what} after {seconds_text(time.monotonic() - began)}.")
        notice = done.notice(title, code="resized", made_in=engines.made_in)
        life.engines.notice = notice
        return life, notice

    def replaced(self) -> None:
        """Stop this life's processes, while another life of the same session goes on."""
        self.cells.background.leave()
        self.engines.stop()

    def write_down(self) -> str | None:
        """Record the session so that other kernels find it; return why that is impossible, or None."""
        return write_down(self.engines, rules=self._rules)

    def _widget_event(self, event: Event) -> None:
        """Carry out a person's action on a widget, on all processes at the same time, as a cell."""
        engines = self.engines.living()
        try:
            with through(Door.MAGIC), engines.turn.taken(timeout_s=WIDGET_SECONDS):
                deliver(engines, event, busy=self.cells.background.busy(), rules=self._rules)
        except NbdistError as error:
            engines.monitor.fault(str(error))
            raise
