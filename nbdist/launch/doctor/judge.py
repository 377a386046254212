"""Judgement of facts: the list of checks, and their findings. Nothing is asked here, and nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nbdist.contract.checkup import Checkup
from nbdist.launch.doctor.accelerators import back_ends, leftovers, tpu
from nbdist.launch.doctor.finding import Case, Examined, Finding, Needs
from nbdist.launch.doctor.network import clocks, names, reach
from nbdist.launch.doctor.room import folder, memory, temporary
from nbdist.launch.doctor.software import packages, python
from nbdist.launch.doctor.surroundings import differing, proxies, scheduler, tf_config

CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    python,
    packages,
    back_ends,
    tpu,
    leftovers,
    names,
    reach,
    clocks,
    tf_config,
    scheduler,
    differing,
    proxies,
    memory,
    temporary,
    folder,
)


def judge(everyone: Sequence[Examined], *, kernel: Checkup, needs: Needs) -> list[Finding]:
    """Return all findings, errors before warnings, otherwise in the order of hosts.

    Args:
      everyone: All hosts that take part.
      kernel: Facts of the kernel's machine.
      needs: The processes to be started.
    """
    found: list[Finding] = []
    for one in everyone:
        if one.trouble is not None:
            found.append(one.trouble)
        # An agent that was asked for no facts has reported none.
        if one.facts is not None:
            case = Case(
                examined=one, reported=one.facts, kernel=kernel, everyone=everyone, needs=needs
            )
            found += [
                finding for check in CHECKS if _answered(case, check) for finding in check(case)
            ]
    return sorted(found, key=lambda finding: finding.severity)


def _answered(case: Case, check: Callable[[Case], Iterator[Finding]]) -> bool:
    """Return whether the host's facts suffice for a check: a Python that is too old reports only its version."""
    return check is python or isinstance(case.reported, Checkup)
