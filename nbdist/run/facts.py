"""What the kernel has learned of its processes beyond their reports, across cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nbdist.merge import Failure, Known
from nbdist.run.standing import Standing, first_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Kept between cells, replaced as a whole.

    `workers` are the processes that compute in step; one alone has nobody to be out of step with. `way_on`
    is the sentence that says how to go on when they no longer can. `lost` says how processes ended, `stuck`
    which did not come back from an interrupt, `silent` which hosts do not answer (and since when, Unix
    seconds), `since` the cell after which the session was out of step (None:
    it is in step).
    """

    workers: frozenset[int]
    way_on: str
    lost: Mapping[int, str] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    silent: Mapping[str, float] = field(default_factory=dict)
    since: int | None = None

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self.since is not None

    def after(self, standings: Mapping[int, Standing], cell: int) -> Facts:
        """These facts and what a cell has taught."""
        lost = {p: s.error or "gone" for p, s in standings.items() if s.outcome == "gone"}
        stuck = {p for p, s in standings.items() if s.outcome == "stuck"}
        interrupted = any(
            s.outcome in ("interrupted", "stuck", "gone")
            for p, s in standings.items()
            if p in self.workers
        )
        back = {p for p, s in standings.items() if s.outcome in ("finished", "raised")}
        since = cell if interrupted and len(self.workers) > 1 and self.since is None else self.since
        return replace(
            self,
            lost={**self.lost, **lost},
            stuck=(self.stuck | stuck) - back,
            since=since,
        )

    def unheard(self, silent: Mapping[str, float]) -> Facts:
        """These facts while these hosts do not answer."""
        return replace(self, silent=silent)

    def recovered(self) -> Facts:
        """These facts when all processes are there again and in step."""
        return replace(self, lost={}, stuck=frozenset(), since=None)

    def known(self, standings: Mapping[int, Standing] | None = None) -> Known:
        """For the live view; `standings` of a cell that runs."""
        still = any(s.outcome == "running" for s in (standings or {}).values())
        failed = {
            p: Failure(error=first_line(s.error or ""), line=s.line, source=s.source)
            for p, s in (standings or {}).items()
            if still and s.outcome == "raised"
        }
        gone = {p: s.error or "gone" for p, s in (standings or {}).items() if s.outcome == "gone"}
        return Known(
            failed=failed,
            stuck=self.stuck,
            lost={**self.lost, **gone},
            silent=self.silent,
            out_of_step=self.out_of_step,
            way_on=self.way_on,
        )
