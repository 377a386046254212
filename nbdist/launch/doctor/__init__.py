"""The doctor: whether a start on some hosts would succeed, and if not, what is wrong, where, and what to type."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from nbdist.launch.doctor.examine import examine_all
from nbdist.launch.doctor.finding import Examination, Needs
from nbdist.launch.doctor.judge import judge
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.launch.model.plan import Placement, Plan


def doctor(placement: Placement, *, needs: Needs) -> Examination:
    """Examine hosts and judge the facts; start nothing and leave nothing behind.

    Args:
      placement: The hosts, and how they are reached; this machine if none are named.
      needs: The processes to be started on them.
    """
    started = time.monotonic()
    everyone, kernel = examine_all(
        placement.hosts or (AskedHost(name="localhost"),),
        placement.ssh or SshOptions(python=sys.executable),
        # Files that a start sends along are in a folder of their own there.
        folder=None if placement.sync else placement.cwd or str(Path.cwd()),
    )
    findings = judge(everyone, kernel=kernel, needs=needs)
    return Examination(everyone=everyone, findings=findings, seconds=time.monotonic() - started)


def running(plan: Plan) -> dict[str, Any]:
    """Return the arguments of `doctor` for the hosts of a running session."""
    return {
        "placement": plan.placement,
        "needs": Needs(
            framework=plan.framework,
            backend=plan.backend,
            platform=plan.platform,
            launcher=plan.placement.launcher,
            starting=False,
        ),
    }
