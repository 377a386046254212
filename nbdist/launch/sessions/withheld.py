"""Values of `--env`, never recorded, since one may be a token: a kernel that attaches knows only the names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nbdist.errors import SessionError
from nbdist.launch.model.plan import Plan
from nbdist.quantities import names_text
from nbdist.spelling import command


def without_values(plan: Plan) -> Plan:
    """Return the plan as it is recorded."""
    kept = {name: value for name, value in plan.environment.items() if name not in plan.given}
    return replace(plan, environment=kept, withheld=plan.given)


def with_values(plan: Plan, environment: Mapping[str, str]) -> Plan:
    """Return a plan that can be started again, with values from the environment of this kernel.

    Raises:
      SessionError: A variable is not set there.
    """
    missing = [name for name in plan.withheld if name not in environment]
    if missing:
        raise SessionError(
            f"The session was started with values for {names_text(missing)}, which are not written down, and this "
            f"kernel has none: %env {missing[0]}=VALUE sets one, then {command('restart')}. Nothing was stopped."
        )
    given = {name: environment[name] for name in plan.withheld}
    return replace(plan, environment={**plan.environment, **given}, withheld=())


def say_given(plan: Plan) -> list[str]:
    """Return a sentence that values come from this kernel; empty if none do."""
    if not plan.withheld:
        return []
    return [
        f"{names_text(plan.withheld)} as this kernel has it: values that a session was started with are not "
        "written down."
    ]
