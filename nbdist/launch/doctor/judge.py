"""Judgement of collected facts: the list of checks, and their findings. It queries and starts nothing.

This module has the checks of single hosts: other holders of the devices, room for processes, Python and packages.
Checks of hosts as one cluster are in `cluster`. Python and packages are checked because, if they differ, processes
fail with errors that mention neither.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from nbdist.contract.checkup import Checkup, FoundProcess
from nbdist.launch.doctor.cluster import (
    clocks,
    differing,
    names,
    proxies,
    reach,
    scheduler,
    tf_config,
)
from nbdist.launch.doctor.finding import Case, Examined, Finding, Needs
from nbdist.launch.model.framework import framework_named
from nbdist.notation import bytes_text, count_text
from nbdist.spelling import Placeholder, command, option, start_with


def back_ends(case: Case) -> Iterator[Finding]:
    """Find back ends in this kernel that hold devices which the processes need."""
    if not case.examined.local or not case.needs.starting or case.needs.platform == "cpu":
        return
    devices = case.facts.accelerators
    for up in case.kernel.backends or ():
        on_tpu = up.platform == "tpu" or (not up.platform and devices.tpus)
        on_gpu = up.platform in ("gpu", "cuda", "rocm") or (not up.platform and devices.gpus)
        if on_tpu or on_gpu:
            effect = (
                "whose chips belong to one process" if on_tpu else "and takes most of their memory"
            )
            kind = "TPU" if on_tpu else "GPUs"
            yield case.error(
                f"{up.framework} has started in this kernel and holds the {kind}, {effect}",
                where="this kernel",
                do=f"restart the kernel, and compute in a {command('cell')} only",
            )


def tpu(case: Case) -> Iterator[Finding]:
    """Find processes that hold the chips, and lock files of processes that are gone."""
    if not case.needs.starting or case.needs.platform not in (None, "tpu"):
        return
    holding = _holding(case.facts)
    for holder in holding:
        yield case.error(
            f"process {holder.pid} ({holder.command}, user {holder.user}) holds the TPU",
            where=", ".join(holder.devices),
            do=case.there(_kill(case, holder)),
        )
    if holding:
        return
    for lock in case.facts.locks:
        foreign = lock.owner != case.facts.user
        progress = case.error if foreign and case.facts.accelerators.tpus else case.warning
        yield progress(
            f"a lock file of libtpu is left, owned by {lock.owner}, and no process that this user can see "
            "holds the TPU",
            where=lock.path,
            do=case.there(f"{'sudo ' if foreign else ''}rm {lock.path}"),
        )


def _holding(facts: Checkup) -> tuple[FoundProcess, ...]:
    """Return the processes that hold chips; virtual machines without a TPU have device files of the same names."""
    return facts.holders if facts.accelerators.tpus else ()


def leftovers(case: Case) -> Iterator[Finding]:
    """Find processes of an earlier session that nothing will end."""
    for process in case.facts.leftovers:
        yield case.warning(
            f"process {process.pid} ({process.command}) is left over from an earlier session",
            where=f"processes of user {process.user}",
            do=case.there(_kill(case, process)),
        )


def _kill(case: Case, process: FoundProcess) -> str:
    return f"{'' if process.user == case.facts.user else 'sudo '}kill {process.pid}"


MIB = 1 << 20

TEMPORARY_BYTES = 100 * MIB
"""Room for temporary files below which a warning is given: logs and outputs soon fill so little."""


def memory(case: Case) -> Iterator[Finding]:
    """Check that memory suffices for the requested processes without any data."""
    available = case.facts.memory.available
    parent, each = framework_named(case.needs.framework).memory_bytes
    count = case.examined.processes
    # A scheduler starts an agent for each process.
    parents = count if case.needs.launcher in ("slurm", "mpi") else 1
    needed = parents * parent + count * each
    if not case.needs.starting or available is None or available >= needed:
        return
    # The figures are rounded up, and memory may become free.
    progress = case.warning if available > needed * 2 / 3 else case.error
    noun = f"{count_text(count, 'process')} with {case.needs.framework}"
    yield progress(
        f"{bytes_text(available)} of memory available; {noun} need about {bytes_text(needed)} before they "
        "hold any data",
        where=f"memory of {case.examined.host}",
        do=f"{case.there('ps -eo pid,user,rss,args --sort=-rss | head')}, and end what is not needed; or ask for "
        "fewer processes there",
    )


def temporary(case: Case) -> Iterator[Finding]:
    """Check that there is room for the processes' files."""
    found = case.facts.temporary
    look = case.there(f"du -xh --max-depth=1 {shlex.quote(found.path)}")
    if found.error:
        progress = case.warning if found.instead else case.error
        instead = f"; its files would go to {found.instead} instead" if found.instead else ""
        yield progress(
            f"no file can be written in {found.path}: {found.error}{instead}",
            where=f"{found.path} on {case.examined.host}",
            do=f"{look}, and make room; or set TMPDIR there",
        )
    elif found.free is not None and found.free < TEMPORARY_BYTES:
        yield case.warning(
            f"{bytes_text(found.free)} free in {found.path}",
            where=f"{found.path} on {case.examined.host}",
            do=f"{look}, and make room",
        )


def folder(case: Case) -> Iterator[Finding]:
    """Check that the working folder of the cells exists."""
    found = case.facts.folder
    if found is not None and not found.exists:
        yield case.error(
            f"the notebook's folder {found.path} is not there",
            where=f"{found.path} on {case.examined.host}",
            do=f"{start_with('sync', '.')}, which brings it there; or "
            f"{start_with('cwd', Placeholder('FOLDER'))}, with a folder that is there",
        )


SAME_AS_KERNEL = ("nbdist", "ipyparallel")


def python(case: Case) -> Iterator[Finding]:
    """Check that Python's minor version is the same, since data pickled here are unpickled there."""
    here, there = case.kernel.python, case.reported.python
    if here[:2] != there[:2]:
        wanted = ".".join(map(str, here[:2]))
        yield case.error(
            f"Python {_dotted(there)} there, {_dotted(here)} in this kernel; they must agree in the first two "
            "numbers",
            where=_python(case),
            do=f"{case.there(f'command -v python{wanted}')}, then name it with {option('remote_python')}",
        )


def packages(case: Case) -> Iterator[Finding]:
    """Find packages that are missing or of another version, and one command that installs all of them."""
    if case.kernel.python[:2] != case.facts.python[:2]:
        return
    wrong, install = [], []
    for name in (*SAME_AS_KERNEL, *_of_framework(case)):
        found, wanted = case.facts.packages.get(name), _wanted(case, name)
        # An unknown version is not reported as wrong; the processes compare what they have imported.
        if found is not None and (not found or wanted is None or _fits(name, found, wanted)):
            continue
        agreed = f"{name} {wanted}" if wanted else name
        wrong.append(
            f"{agreed} is missing" if found is None else f"{name} is {found}, not {wanted}"
        )
        install.append(_requirement(case, name, wanted))
    if wrong:
        pip = [case.facts.executable, "-m", "pip", "install", *install]
        yield case.error("; ".join(wrong), where=_python(case), do=case.there(shlex.join(pip)))


def _fits(name: str, found: str, wanted: str) -> bool:
    if name == "ipyparallel":
        # The messages between controller and engines have the same format within a series such as 9.2.
        return found.split(".")[:2] == wanted.split(".")[:2]
    return found == wanted


def _requirement(case: Case, name: str, wanted: str | None) -> str:
    """Return the requirement that pip gets there.

    It names the distribution from which the host has the module (a second one would overwrite its files), else the
    distribution from which other hosts have it.
    """
    source = case.facts if case.facts.packages.get(name) else None
    if source is None and wanted:
        others = (case.kernel, *case.all_facts)
        source = next((facts for facts in others if facts.packages.get(name) == wanted), None)
    distribution = source.distributions.get(name, name) if source is not None else name
    return f"{distribution}=={wanted}" if wanted else distribution


def _of_framework(case: Case) -> tuple[str, ...]:
    return framework_named(case.needs.framework).compared_with(case.needs.backend)


def _wanted(case: Case, name: str) -> str | None:
    """Return the version for all hosts: the kernel's if the kernel must agree, else the most common one."""
    here = case.kernel.packages.get(name) or None
    if name in SAME_AS_KERNEL:
        return here
    versions = Counter(version for facts in case.all_facts if (version := facts.packages.get(name)))
    # The kernel computes nothing, so its version may differ from the one that the hosts agree on.
    if here is None or (len(versions) == 1 and here not in versions):
        return versions.most_common(1)[0][0] if versions else None
    return here


def _python(case: Case) -> str:
    return f"{case.reported.executable} on {case.examined.host}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


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
        # An agent that was not asked for facts has reported none.
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
