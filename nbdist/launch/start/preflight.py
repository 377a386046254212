"""The doctor's checks during a start: they run while the agents import, over the agents' own connections."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from msgspec import structs

from nbdist.contract.checkup import Checkup, Connection
from nbdist.errors import HostError, LaunchError
from nbdist.launch.doctor.examine import clock, kernel_facts
from nbdist.launch.doctor.finding import (
    THIS_MACHINE,
    Examined,
    Finding,
    Needs,
    findings_text,
)
from nbdist.launch.doctor.judge import judge
from nbdist.launch.launchers.ssh import shell
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan
from nbdist.machine import checkup
from nbdist.machine.ports import LOOPBACK
from nbdist.spelling import command

MOST_TARGETS = 8
"""How many hosts each host tries to reach, process 0's first; trying all would grow with the square of the
number."""


class Preflight:
    """Checks that run while the processes' agents start.

    Args:
      plan: The processes to be started.
      address: Where the hosts are to find the controller.
    """

    def __init__(self, plan: Plan, address: str) -> None:
        self._plan = plan
        self._here = address == LOOPBACK
        self._address = address
        self._listener: socket.socket | None = None
        forwarded = plan.placement.forwarded
        if forwarded or not self._here:
            # Behind address translation, the address is not this machine's own.
            with contextlib.suppress(OSError):
                self._listener = checkup.listen(address, *forwarded[-1:])
        pool = ThreadPoolExecutor(1)
        self._kernel: Future[Checkup] = pool.submit(kernel_facts, {})
        pool.shutdown(wait=False)

    @property
    def asked(self) -> dict[str, Any]:
        """The checks for an agent on another machine: the arguments of `nbdist.machine.checkup.checkup`."""
        if self._listener is None:
            return {}
        return {"connect": [list(self._listener.getsockname()[:2])]}

    def judge(self, info: Mapping[str, HostInfo]) -> list[Finding]:
        """Judge the reports of the hosts and the facts of this machine; close the listener.

        Args:
          info: The facts of other machines, by their name in the plan.

        Returns:
          The warnings.

        Raises:
          HostError: A problem on one host with which a start would fail.
          LaunchError: As `HostError`, on this machine.
        """
        self.close()
        kernel = self._kernel.result()
        plan = self._plan
        everyone = [self._examined(name, facts) for name, facts in info.items()]
        here = plan.on(socket.gethostname()) if plan.placement.job is None else ()
        if here:
            name = socket.gethostname()
            everyone.insert(0, Examined(host=name, facts=kernel, processes=len(here)))
        needs = Needs(
            framework=plan.framework,
            backend=plan.backend,
            platform=plan.platform,
            launcher=plan.placement.launcher,
        )
        findings = judge(everyone, kernel=kernel, needs=needs)
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            text, host = findings_text(errors).rstrip(), errors[0].host
            if host in info:
                raise HostError(f"Host {host} cannot take part.\n{text}", host=host)
            raise LaunchError(f"The processes were not started.\n{text}")
        return [finding for finding in findings if finding.severity == "warning"]

    def close(self) -> None:
        """Close the listener that hosts were to reach."""
        if self._listener is not None:
            self._listener.close()

    def _examined(self, name: str, facts: HostInfo) -> Examined:
        placement = self._plan.placement
        typed = f"ssh {name} "
        asked = next((host for host in placement.hosts if host.name == name), None)
        if asked is not None and placement.ssh is not None:
            typed = shell(asked, placement.ssh)
        checks = facts.checks
        connected = checks.connected if checks is not None else None
        return Examined(
            host=name,
            shell=typed,
            facts=checks,
            clock=clock(checks.time, facts.asked_s, facts.received_s) if checks else None,
            reached={THIS_MACHINE: structs.replace(connected[0], address=self._address)}
            if connected
            else {},
            processes=len(self._plan.on(name)) or 1,
        )


def targets(info: Mapping[str, HostInfo]) -> tuple[tuple[str, int], ...]:
    """Return address and port of the first hosts, which every host tries to reach."""
    listening = [
        (facts.address, facts.listening)
        for facts in info.values()
        if facts.listening and facts.address is not None
    ]
    return tuple(listening[:MOST_TARGETS])


def unreached(
    info: Mapping[str, HostInfo], host: str, answers: Sequence[Connection]
) -> tuple[str, str] | None:
    """Return the first host that another one did not reach, and a text about it; None if it reached all."""
    names = [name for name, facts in info.items() if facts.listening]
    for name, answer in zip(names, answers, strict=False):
        if answer.error is not None and name != host:
            address = info[name].address
            return name, (
                f"Host {host} cannot connect to host {name} at {address}: {answer.error}. The processes talk "
                "to each other there, on ports that are free at the time. Open TCP between the hosts; "
                f"{command('doctor')} says what to type."
            )
    return None
