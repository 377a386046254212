"""Engines that ran before this kernel came, with all that is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.calls.engine import Initialized
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.cluster import Cluster
from nbdist.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedCluster:
    """What a session is made of that nobody starts.

    `session` is its id, `asked` the plan as a person asked for it. `answers` are the frameworks' answers by
    process id, empty where the frameworks are still to be initialized. `ours` says whether this kernel may stop
    it: what it has not started it only leaves. `rules` are those that the session was started with. `began` is
    when this began (monotonic), `remarks` what a person should read.
    """

    session: str
    link: Cluster
    asked: Plan
    answers: Mapping[int, Initialized]
    ours: bool
    began: float
    rules: Rules
    remarks: tuple[str, ...] = ()
