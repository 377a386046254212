"""Facts about the processes that the kernel has learned beyond their reports, kept across cells."""

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
"""For processes that another kernel, or somebody else, started: this kernel cannot reach their agents."""

WITHOUT_REPAIR = (
    "Nothing can be started where it was: {pull} brings values here, {restart} starts afresh."
)
"""For a process that is gone with its host, or with the agent that started it."""


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
"""For the end of ipyparallel's controller, through which every request to the processes goes."""

WITHOUT_ANYTHING = "Nothing can be asked of the processes any more. {restart} starts afresh."
"""The same for processes that save nothing."""


WITHOUT_PROCESSES = (
    "No process is left that has variables: {restart} starts afresh; {restore} brings back a save."
)
"""For the end of all processes: no process is left to take names and values from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the processes, kept between cells and replaced as a whole.

    Attributes:
      workers: The processes that compute in step; one alone has nobody to be out of step with.
      advice: How to go on when they are out of step: a sentence with commands in braces, see `remedy`.
      lost: How processes ended, by process id.
      unreachable: Those of `lost` that have no agent any more to start others in their place.
      stuck: The processes that did not come back from an interrupt.
      silent: The hosts that do not answer, each with the Unix time since when.
      since: The cell after which the session was out of step; None: it is in step.
      why: How it is known that the session is out of step.
      proves: Whether the processes can prove that they are in step; then nothing is concluded from who was
        interrupted.
      repaired: What the last repair did, until another cell has ended.
      diverged: How the cell that has just ended left the processes out of step, whatever was done then.
      forgotten: The paths of the arrays that this cell lost.
      mixed: Whether numbers that this cell printed may be wrong.
      unsure: Names that may not hold what they held, and why: names of processes that replaced ended ones, or of
        arrays that went back to their copies when nobody had read of it yet.
      leaves_out: Whether the session can go on without one of its hosts.
      cut_off: Whether the processes cannot be asked for anything any more.
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
        """Return whether collectives of different processes may no longer match."""
        return self.since is not None

    @property
    def remedy(self) -> str:
        """The sentence that says how to go on now; offers no repair where nobody can replace a process."""
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
        """Return these facts with what a cell has taught."""
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
        """Return these facts with these hosts silent."""
        return replace(self, silent=silent)

    def recovered(
        self, done: str | None = None, *, unsure: Mapping[str, Doubt] = MappingProxyType({})
    ) -> Facts:
        """Return these facts with all processes back and in step; `done` says what it took."""
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
        """Return the facts for the live view; `outcomes` are a running cell's, the others as in `Known`."""
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
