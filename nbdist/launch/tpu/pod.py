"""TPU pod as data: its workers, in the order of JAX's process ids.

A pod is described from outside as a `TpuPod`, with all workers, or from one of its machines as a `Worker`, which
knows its own slice only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nbdist.errors import LaunchError
from nbdist.launch.model.hosts import AskedHost


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
class TpuPod:
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


def pod_hosts(pod: TpuPod) -> tuple[AskedHost, ...]:
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


COORDINATOR_PORT = 8482
"""JAX's own port for pods. Source: jax/_src/clusters/cloud_tpu_cluster.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """This machine as a worker: facts about its own slice, and how many slices there are, as JAX reads them.

    `form` is JAX's name for the source. `addresses` and `hosts` are those of the workers of its slice, in their
    order; a worker does not know those of other slices. `megascale_coordinator` is worker 0 of slice 0 if there
    are several slices. `variables` are those of its environment that libtpu reads and that all workers of the
    slice share.
    """

    form: Literal["gcetpu", "gketpu"]
    index: int
    addresses: tuple[str, ...]
    hosts: tuple[str, ...]
    slices: int
    slice_index: int
    megascale_coordinator: str | None
    name: str | None = None
    zone: str | None = None
    accelerator_type: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def processes(self) -> int:
        """Number of processes JAX would expect: one per worker, in all slices."""
        return len(self.addresses) * self.slices

    @property
    def process_id(self) -> int:
        """The process id JAX would use here: ids count slice by slice."""
        return self.index + self.slice_index * len(self.addresses)

    @property
    def coordinator_host(self) -> str:
        """Where JAX would look for process 0, without the port."""
        return (self.megascale_coordinator or self.addresses[0]).split(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWorker:
    """Reason why this machine is not seen as a worker of a pod."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Number of slices of a pod, the index of this one, and the address of worker 0 of slice 0."""

    count: int
    index: int
    coordinator: str | None


def slices(given: Mapping[str, str]) -> Slices:
    """Read the `MEGASCALE_*` variables; one slice if they are missing or empty.

    Raises:
      LaunchError: One of them is no number, or the index is none of the slices.
    """
    count = _number(given, "MEGASCALE_NUM_SLICES", 1)
    index = _number(given, "MEGASCALE_SLICE_ID", 0)
    if not 0 <= index < count:
        raise LaunchError(
            f"MEGASCALE_SLICE_ID is {index}, but MEGASCALE_NUM_SLICES is {count}: this pod's own numbering "
            "cannot be used. Both come from the pod's set-up, or from the environment of this kernel."
        )
    return Slices(count=count, index=index, coordinator=given.get("MEGASCALE_COORDINATOR_ADDRESS"))


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    return whole_number(given[name], name) if given.get(name) else default


def whole_number(text: str, name: str) -> int:
    """Return the number that `name` holds.

    Raises:
      LaunchError: It holds none.
    """
    try:
        return int(text)
    except ValueError:
        raise LaunchError(
            f"{name} is {text!r}, which is no number: this pod's own numbering cannot be used."
        ) from None


def check_index(index: int, addresses: Sequence[str], *, index_name: str, list_name: str) -> None:
    """Refuse a worker's number that its slice does not have, and a list that names one machine twice.

    Raises:
      LaunchError: The number or the list is refused.
    """
    if not 0 <= index < len(addresses):
        raise LaunchError(
            f"{index_name} is {index}, but {list_name} names {len(addresses)} workers "
            f"({', '.join(addresses)}): this pod's own numbering cannot be used."
        )
    doubled = sorted({address for address in addresses if addresses.count(address) > 1})
    if doubled:
        raise LaunchError(
            f"{list_name} names {doubled[0]} more than once ({', '.join(addresses)}): "
            "its workers cannot be told apart."
        )
