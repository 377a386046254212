"""What the kernel has learned of its processes beyond their reports, across cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from nbdist.cells.outcome import ProcessOutcome, first_line
from nbdist.contract.history import Doubt
from nbdist.merge import Failure, Known
from nbdist.spelling import sentence

RECOVER = (
    "{recover} brings the processes in step, {pull} brings values here, {restart} starts afresh."
)

ELSEWHERE = (
    "These processes can be brought in step, or started afresh, only where they were started; {pull} brings "
    "values here."
)
"""Of processes that another kernel, or somebody else, has started: their agents cannot be reached from here."""

WITHOUT_REPAIR = (
    "Nothing can be started where it was: {pull} brings values here, {restart} starts afresh."
)
"""Of a process that is gone with its host, or with the agent that had started it."""


WITHOUT_HOST = (
    "{recover} goes on when that host is back, {without} goes on without it, {pull} brings values here, "
    "{restart} starts afresh."
)
"""The same where all processes can be started anew, also on fewer hosts."""


WITHOUT_CONTROLLER = (
    "Nothing can be asked of the processes any more. Those that live save their arrays on their hosts, in the "
    "folder for temporary files: process N to nbdist-rescued-PID-*/process-N.npz, which numpy.load reads. "
    "{restart} starts afresh."
)
"""Where ipyparallel's controller has ended, through which all that processes are asked goes."""

WITHOUT_ANYTHING = "Nothing can be asked of the processes any more. {restart} starts afresh."
"""The same of processes that save nothing."""


WITHOUT_PROCESSES = (
    "No process is left that has variables: {restart} starts afresh; {restore} brings back a save."
)
"""Where all have ended, and others have nobody to take names and values from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Kept between cells, replaced as a whole.

    `workers` are the processes that compute in step; one alone has nobody to be out of step with. `advice` is the
    sentence that says how to go on when they no longer can, with commands in braces (`remedy`: as things are, for
    whoever reads it now). `lost` says how processes ended, `unreachable` which of these have no agent any more
    that could start others in their place, `stuck` which did not come back from an interrupt, `silent` which hosts
    do not answer (and since when, Unix seconds), `since` the cell after which the session was out of step (None:
    it is in step), and `why` how that is known. Processes of which `proves` says so can prove that they are in
    step, so that nothing is concluded from who was interrupted. `repaired` says what was done the last time, until
    another cell has ended. `diverged` says how the cell that has just ended had left them out of step, whatever
    was done then, `forgotten` which arrays that has lost, by path, and `mixed` whether numbers that it printed may
    be wrong. `unsure` are names of processes that have taken the place of ended ones, which may not be what those
    had, and why, or of arrays that went back to their copies when nobody had read of it yet. `leaves_out` says
    whether the session can go on without one of its hosts, `cut_off` that the processes cannot be asked for
    anything any more.
    """

    workers: frozenset[int]
    advice: str
    lost: Mapping[int, str] = field(default_factory=dict)
    unreachable: frozenset[int] = frozenset()
    stuck: frozenset[int] = frozenset()
    silent: Mapping[str, float] = field(default_factory=dict)
    since: int | None = None
    why: str | None = None
    proves: bool = False
    repaired: str | None = None
    diverged: str | None = None
    forgotten: tuple[str, ...] = ()
    mixed: bool = False
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    leaves_out: bool = False
    cut_off: bool = False

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self.since is not None

    @property
    def remedy(self) -> str:
        """The sentence that says how to go on now; no repair is offered where nobody can replace a process."""
        if self.cut_off:
            return sentence(WITHOUT_CONTROLLER if self.proves else WITHOUT_ANYTHING)
        if not self.proves or self.advice == ELSEWHERE:
            return sentence(self.advice)
        if not self.workers.isdisjoint(self.unreachable):
            return sentence(WITHOUT_HOST if self.leaves_out else WITHOUT_REPAIR)
        return sentence(WITHOUT_PROCESSES if self.workers <= self.lost.keys() else self.advice)

    @property
    def why_and_advice(self) -> str:
        """The end of a sentence that says the session is out of step."""
        return f"{f': {self.why}' if self.why else ''}. {self.remedy}"

    def after(self, outcomes: Mapping[int, ProcessOutcome], cell: int) -> Facts:
        """These facts and what a cell has taught."""
        lost = {p: s.error or "gone" for p, s in outcomes.items() if s.outcome == "gone"}
        stuck = {p for p, s in outcomes.items() if s.outcome == "stuck"}
        broken = ("stuck", "gone") if self.proves else ("interrupted", "stuck", "gone")
        interrupted = any(s.outcome in broken for p, s in outcomes.items() if p in self.workers)
        back = {p for p, s in outcomes.items() if s.outcome in ("finished", "raised")}
        since = cell if interrupted and len(self.workers) > 1 and self.since is None else self.since
        return replace(
            self,
            lost={**self.lost, **lost},
            stuck=(self.stuck | stuck) - back,
            repaired=None,
            since=since,
        )

    def silent_since(self, silent: Mapping[str, float]) -> Facts:
        """These facts while these hosts do not answer."""
        return replace(self, silent=silent)

    def recovered(
        self, done: str | None = None, *, unsure: Mapping[str, Doubt] = MappingProxyType({})
    ) -> Facts:
        """These facts when all processes are there again and in step; `done` says what it took."""
        return replace(
            self,
            lost={},
            unreachable=frozenset(),
            stuck=frozenset(),
            since=None,
            why=None,
            repaired=done,
            unsure={**self.unsure, **unsure},
        )

    def known(
        self,
        outcomes: Mapping[int, ProcessOutcome] | None = None,
        *,
        repairing: bool = False,
        resizing: str | None = None,
    ) -> Known:
        """For the live view; `outcomes` of a cell that runs, `repairing` and `resizing` as in `Known`."""
        still = any(s.outcome == "running" for s in (outcomes or {}).values())
        failed = {
            p: Failure(error=first_line(s.error or ""), line=s.line, source=s.source)
            for p, s in (outcomes or {}).items()
            if still and s.outcome == "raised"
        }
        gone = {p: s.error or "gone" for p, s in (outcomes or {}).items() if s.outcome == "gone"}
        return Known(
            failed=failed,
            stuck=self.stuck,
            lost={**self.lost, **gone},
            silent=self.silent,
            out_of_step=self.out_of_step,
            why=self.why,
            repairing=repairing,
            resizing=resizing,
            repaired=self.repaired,
            advice=self.remedy,
        )
