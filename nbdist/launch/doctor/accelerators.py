"""Other holders of the devices: this kernel, processes that were left over, their lock files."""

from __future__ import annotations

from collections.abc import Iterator

from nbdist.contract.checkup import Checkup, FoundProcess
from nbdist.launch.doctor.finding import Case, Finding
from nbdist.spelling import command


def back_ends(case: Case) -> Iterator[Finding]:
    """Find back ends in this kernel that hold devices the processes need."""
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
    """Return the processes that hold chips: virtual machines without a TPU have devices of the same names."""
    return facts.holders if facts.accelerators.tpus else ()


def leftovers(case: Case) -> Iterator[Finding]:
    """Find processes of an earlier session that nothing ends any more."""
    for process in case.facts.leftovers:
        yield case.warning(
            f"process {process.pid} ({process.command}) is left over from an earlier session",
            where=f"processes of user {process.user}",
            do=case.there(_kill(case, process)),
        )


def _kill(case: Case, process: FoundProcess) -> str:
    return f"{'' if process.user == case.facts.user else 'sudo '}kill {process.pid}"
