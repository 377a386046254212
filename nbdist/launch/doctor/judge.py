"""From facts to findings: which checks there are. Nothing is asked here, and nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from nbdist.launch.doctor.accelerators import back_ends, leftovers, tpu
from nbdist.launch.doctor.finding import Case, Clock, Examined, Facts, Finding, Needs
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


def judge(everyone: Sequence[Examined], *, kernel: Facts, needs: Needs) -> list[Finding]:
    """What is not as it should be, errors before warnings, otherwise in the order of hosts.

    Args:
      everyone: All hosts that take part.
      kernel: Facts of the kernel's machine.
      needs: What is to be started.
    """
    found: list[Finding] = []
    for one in everyone:
        if one.trouble is not None:
            found.append(one.trouble)
        if one.facts is not None:
            case = Case(
                examined=one, facts=one.facts, kernel=kernel, everyone=everyone, needs=needs
            )
            found += [
                finding for check in CHECKS if _answered(case, check) for finding in check(case)
            ]
    return sorted(found, key=lambda finding: finding.severity)


def _answered(case: Case, check: Callable[[Case], Iterator[Finding]]) -> bool:
    """A Python that is too old tells its version and nothing else."""
    return check is python or "packages" in case.facts


def preflight(
    facts_by_host: Mapping[str, Facts],
    *,
    kernel_facts: Facts,
    framework: str = "jax",
    backend: str | None = None,
    launcher: str = "ssh",
    processes: Mapping[str, int] | None = None,
    shells: Mapping[str, str] | None = None,
    clocks: Mapping[str, Clock] | None = None,
) -> list[Finding]:
    """Judges facts that the hosts' parents have told of themselves, before anything is started.

    Args:
      facts_by_host: What `checkup` answered on each host that takes part, by name.
      kernel_facts: What it answered on the kernel's machine.
      framework: What the processes are to compute with.
      backend: What Keras is to compute with.
      launcher: `ssh`, `slurm`, `mpi` or `tpu`: whose variables belong there.
      processes: Number of processes by host; 1 where it is not said.
      shells: What is typed before a command for each host, such as `"ssh h1 "`; hosts it does not name are
        this machine.
      clocks: How far each clock is ahead, where it was compared.

    Returns:
      Findings, errors first.
    """
    everyone = [
        Examined(
            host=host,
            shell=(shells or {}).get(host, ""),
            facts=facts,
            clock=(clocks or {}).get(host),
            processes=(processes or {}).get(host, 1),
        )
        for host, facts in facts_by_host.items()
    ]
    needs = Needs(framework=framework, backend=backend, launcher=launcher)
    return judge(everyone, kernel=kernel_facts, needs=needs)
