"""A worker of a pod: the information it has about itself and its slice, in the form JAX reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nbdist.errors import LaunchError

COORDINATOR_PORT = 8482
"""JAX's own port for pods. Source: jax/_src/clusters/cloud_tpu_cluster.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """This machine as a worker: facts about its own slice, and how many slices there are.

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
    """Why this machine is not seen as a worker of a pod."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """How many slices there are, which one this is, and where worker 0 of slice 0 is."""

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
