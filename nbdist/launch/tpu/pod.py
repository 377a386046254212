"""A TPU pod as data: its workers, in the order of JAX's process ids."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from nbdist.launch.model.host_list import AskedHost


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWorker:
    """One machine of a pod.

    `index` counts from 0 in its slice, as the pod itself numbers it. `address` is where the other workers reach
    it, `ssh_address` where ssh from this machine does; `host` is its name as far as it is known. `local` says that
    it is this machine. `ssh` holds options of ssh for this worker alone, and `environment` variables that libtpu
    needs there and that a command over ssh does not find by itself.
    """

    index: int
    slice_index: int
    address: str
    host: str
    ssh_address: str
    local: bool = False
    ssh: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The workers of one slice or of several, slice by slice; a worker's index here is its process id.

    `accelerator_type` is Google's name for it, such as `"v4-16"`, None if not known. `source` names the source of
    these facts. `notes` are sentences to read before the start; `ssh_advice` is what to type when ssh is refused.
    """

    name: str
    accelerator_type: str | None
    slices: int
    workers: tuple[PodWorker, ...]
    source: str
    notes: tuple[str, ...] = ()
    ssh_advice: str | None = None

    @property
    def coordinator_host(self) -> str:
        """The address of process 0, as the other workers reach it: worker 0 of slice 0."""
        return self.workers[0].address


def pod_hosts(pod: Pod) -> tuple[AskedHost, ...]:
    """Return one host with one process for each worker, in the order of process ids.

    libtpu gives all chips of a machine to one process, and numbers the processes as the pod numbers its
    workers, so neither the count nor the order is free.
    """
    return tuple(
        AskedHost(name="localhost", processes=1) if worker.local else _asked(worker)
        for worker in pod.workers
    )


def _asked(worker: PodWorker) -> AskedHost:
    """Return the host of a worker. If ssh knows only a number, a readable name is used, and ssh gets both."""
    known_by_number = _is_number(worker.ssh_address)
    number = (f"-oHostName={worker.ssh_address}",) if known_by_number else ()
    return AskedHost(
        name=worker.host if known_by_number else worker.ssh_address,
        processes=1,
        ssh=(*number, *worker.ssh),
        environment=worker.environment,
    )


def _is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True
