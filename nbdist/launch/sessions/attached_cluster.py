"""Engines that ran before this kernel came, with all known facts about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.calls.engine import Initialized
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.cluster import Cluster
from nbdist.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedCluster:
    """The parts of a session that this kernel does not start.

    `session` is its id, `asked` the plan as a person asked for it. `answers` are the frameworks' answers by
    process id, empty if the frameworks are still to be initialized. `ours` says whether this kernel may stop it;
    other engines it only leaves. `rules` are those that the session was started with. `began` is when attaching
    began (monotonic), `remarks` are sentences that a person should read.
    """

    session: str
    link: Cluster
    asked: Plan
    answers: Mapping[int, Initialized]
    ours: bool
    began: float
    rules: Rules
    remarks: tuple[str, ...] = ()
