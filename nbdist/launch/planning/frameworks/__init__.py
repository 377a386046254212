"""What each framework needs of a plan; one module a framework, each with the same names.

`environment` is what a process gets before the framework is imported; `stages` the arguments of one
`initialize` call after the other, for one process; `check` looks at the answers of all after each stage;
`preload` names the modules that are imported once before the processes are forked.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.launch.model.rendezvous import Rendezvous

Answers = Mapping[int, Mapping[str, Any]]


class FrameworkPlan(Protocol):
    """The names each module of this room has."""

    def preload(self, plan: Plan) -> list[str]:
        """Modules to import once, before processes are forked."""

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Variables of one process, in place before its framework is imported."""

    def stages(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> list[dict[str, Any]]:
        """Keyword arguments of the engine's `initialize`, one entry a call."""

    def check(self, plan: Plan, answers: Answers) -> None:
        """Raises `LaunchError` when the processes cannot go on to the next stage together."""

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """What the processes compute on, such as `"8 cpu devices"`; None when not initialized."""

    def remarks(self, plan: Plan, answers: Answers) -> list[str]:
        """Sentences a person must read once after the start."""


def framework_plan(name: str) -> FrameworkPlan:
    """The module for a framework."""
    return cast(FrameworkPlan, importlib.import_module(f"{__name__}.{name}"))
