"""This machine as a worker of a TPU pod, as the metadata server or the container's variables describe it.

On Compute Engine the metadata server answers; Kubernetes (GKE) sets variables. A worker knows only its own slice.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from nbdist.errors import LaunchError, OptionError
from nbdist.spelling import Placeholder, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """This machine as a worker: facts about its own slice, and how many slices there are, as JAX reads them.

    `form` is JAX's name for the source of these facts. `addresses` and `hosts` list the workers of its slice, in
    the slice's order; a worker does not know the workers of other slices. `variables` are the environment
    variables that libtpu reads and that all workers of the slice share.
    """

    form: Literal["gcetpu", "gketpu"]
    index: int
    addresses: tuple[str, ...]
    hosts: tuple[str, ...]
    slices: int
    slice_index: int
    name: str | None = None
    zone: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWorker:
    """Reason why this machine is not seen as a worker of a pod."""

    reason: str


def slices(given: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of slices and the index of this one, from `MEGASCALE_*`; one slice if they are not set.

    Raises:
      LaunchError: A variable is not a number, or the index is not that of a slice.
    """
    count = _number(given, "MEGASCALE_NUM_SLICES", 1)
    index = _number(given, "MEGASCALE_SLICE_ID", 0)
    if not 0 <= index < count:
        raise LaunchError(
            f"MEGASCALE_SLICE_ID is {index}, but MEGASCALE_NUM_SLICES is {count}: this pod's own numbering "
            "cannot be used. Both come from the pod's set-up, or from the environment of this kernel."
        )
    return count, index


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    return whole_number(given[name], name) if given.get(name) else default


def whole_number(text: str, name: str) -> int:
    """Return `text` as a whole number; `name` is for the error message.

    Raises:
      LaunchError: The text is not a whole number.
    """
    try:
        return int(text)
    except ValueError:
        raise LaunchError(
            f"{name} is {text!r}, which is no number: this pod's own numbering cannot be used."
        ) from None


def check_index(index: int, addresses: Sequence[str], *, index_name: str, list_name: str) -> None:
    """Check that the slice has a worker with this index, and that the list names no machine twice.

    Raises:
      LaunchError: The index is out of range, or the list names a machine twice.
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


HOST = "metadata.google.internal"
TIMEOUT_SECONDS = 2.0
"""Seconds to wait: the server is on the machine itself, or there is none."""

_ATTRIBUTES = "/computeMetadata/v1/instance/attributes/"
_FLAVOR = {"Metadata-Flavor": "Google"}
MEGASCALE = (
    "MEGASCALE_COORDINATOR_ADDRESS",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_SLICE_ID",
)


class Silent(Exception):
    """No metadata server of Google answered; the message says what did happen."""


def attribute(name: str, environment: Mapping[str, str]) -> str | None:
    """Return one attribute of this machine, requested without a proxy; None if it is not set.

    Source: https://cloud.google.com/compute/docs/metadata/querying-metadata.

    Args:
      name: The attribute.
      environment: Variables; `GCE_METADATA_IP` names another server, as it does for JAX.

    Raises:
      Silent: No server answers within 2 s, or the one that answers is not Google's.
    """
    server = environment.get("GCE_METADATA_IP", HOST)
    request = urllib.request.Request(f"http://{server}{_ATTRIBUTES}{name}", headers=_FLAVOR)
    # A proxy would answer with the metadata of its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            if answer.headers.get("Metadata-Flavor") != "Google":
                raise Silent(f"{server} answers, but not as Google's metadata server does")
            return str(answer.read().decode("utf-8"))
    except urllib.error.HTTPError as error:
        with error:
            if error.headers.get("Metadata-Flavor") != "Google":
                raise Silent(
                    f"{server} answers, but not as Google's metadata server does"
                ) from error
            if error.code == 404:
                return None
            raise Silent(f"{server} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise Silent(f"no metadata server answers at {server} ({error.reason})") from error
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        raise Silent(f"no metadata server answers at {server} ({error!r})") from error


def tpu_environment(text: str) -> dict[str, str]:
    """Read the attribute `tpu-env`: lines such as `MEGASCALE_NUM_SLICES: '2'`."""
    pairs = (line.split(":", 1) for line in text.split("\n") if ":" in line)
    return {name.strip(): value.strip().strip("'") for name, value in pairs}


def megascale(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the `MEGASCALE_*` variables: from the environment if set, else from `tpu-env`, as JAX does."""
    both = {**given, **environment}
    return {name: both[name] for name in MEGASCALE if name in both}


def endpoints(text: str) -> tuple[tuple[str, str], ...]:
    """Return host name (empty if not given) and address of each worker of the slice, in their order.

    Args:
      text: The attribute `worker-network-endpoints`: `NAME:ID:IP,…` or `ADDRESS,…`.

    Raises:
      LaunchError: The text has neither form.
    """
    found = []
    for entry in text.strip().split(","):
        parts = entry.strip().split(":")
        if len(parts) not in (1, 3) or not parts[-1]:
            raise LaunchError(
                f"The metadata server names a worker as {entry!r}. Known are NAME:ID:ADDRESS and ADDRESS: this "
                f"pod cannot be read. Name its workers with {option('hosts')}, in their order."
            )
        name = parts[0] if parts[0] not in ("unknown", parts[-1]) else ""
        found.append((name, parts[-1]))
    return tuple(found)


def read_compute_engine_worker(environment: Mapping[str, str]) -> Worker | NoWorker:
    """Return this machine as a worker of a pod on Compute Engine, as Google's metadata server describes it.

    Source for the attributes of a pod: jax/_src/clusters/cloud_tpu_cluster.py.

    Raises:
      LaunchError: The metadata server's answer cannot be read.
    """
    if "TPU_SKIP_MDS_QUERY" in environment:
        return NoWorker(reason="TPU_SKIP_MDS_QUERY is set, so the metadata server is not asked")
    try:
        number = attribute("agent-worker-number", environment)
        if number is None:
            return NoWorker(
                reason="the metadata server has no agent-worker-number for this machine"
            )
        listed = attribute("worker-network-endpoints", environment)
        given = tpu_environment(attribute("tpu-env", environment) or "")
    except Silent as error:
        return NoWorker(reason=str(error))
    if not listed:
        raise LaunchError(
            f"The metadata server says that this is worker {number}, but names no workers "
            f"(worker-network-endpoints is missing). Name them with {option('hosts')}, in their order."
        )
    index = whole_number(number, "agent-worker-number")
    found = endpoints(listed)
    addresses = tuple(address for _, address in found)
    check_index(
        index, addresses, index_name="agent-worker-number", list_name="worker-network-endpoints"
    )
    count, slice_index = slices(megascale(environment, given))
    return Worker(
        form="gcetpu",
        index=index,
        addresses=addresses,
        hosts=tuple(name for name, _ in found),
        slices=count,
        slice_index=slice_index,
        name=given.get("NODE_ID"),
        zone=given.get("ZONE"),
    )


LISTS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
"""Variables that name the workers of a slice; the first that is set decides."""
LIST_FILE = "TPU_PROCESS_ADDRESSES_PATH"
"""A variable with the path of a file that names the workers; it has priority. JAX reads it since 0.11.2."""


def read_kubernetes_worker(environment: Mapping[str, str]) -> Worker | NoWorker:
    """Return this machine as a worker of a pod on Kubernetes (GKE), which puts variables into each container.

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/tpus and jax/_src/clusters/cloud_tpu_cluster.py.

    Raises:
      LaunchError: The variables contradict each other, or one is missing.
    """
    listed = _listed(environment)
    if listed is None:
        return NoWorker(reason=f"neither {LISTS[0]} nor {LISTS[1]} is set")
    name, text = listed
    if "TPU_WORKER_ID" not in environment:
        raise LaunchError(
            f"{name} is set ({environment[name]}), but TPU_WORKER_ID is not: which of them this machine is "
            f"cannot be known. Set it, or take {name} away."
        )
    index = whole_number(environment["TPU_WORKER_ID"], "TPU_WORKER_ID")
    # Ports are those of libtpu's own connections.
    addresses = tuple(part.strip().split(":")[0] for part in text.split(","))
    if not all(addresses):
        inside = f"names the file {environment[name]}, which holds" if name == LIST_FILE else "is"
        raise LaunchError(f"{name} {inside} {text!r}: an address is missing. Expected HOST,HOST,…")
    check_index(index, addresses, index_name="TPU_WORKER_ID", list_name=name)
    count, slice_index = slices(megascale(environment, _tpu_environment(environment)))
    return Worker(
        form="gketpu",
        index=index,
        addresses=addresses,
        hosts=addresses,
        slices=count,
        slice_index=slice_index,
        name=environment.get("HOSTNAME"),
        variables={
            name: value
            for name, value in environment.items()
            if name.startswith(("TPU_", "MEGASCALE_")) and name != "TPU_WORKER_ID"
        },
    )


def _listed(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that decides where the workers are, and their list `HOST:PORT,HOST:PORT,…`."""
    path = environment.get(LIST_FILE)
    if path:
        try:
            return LIST_FILE, Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LaunchError(
                f"{LIST_FILE} names the file {path}, which cannot be read: {error}. Put the addresses of the "
                f"workers there, or take {LIST_FILE} away."
            ) from None
    return next(((name, environment[name]) for name in LISTS if name in environment), None)


def _tpu_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the metadata server that the environment lacks.

    JAX asks it too if a variable is missing, whatever `TPU_SKIP_MDS_QUERY` says.
    """
    if all(name in environment for name in MEGASCALE):
        return {}
    try:
        return tpu_environment(attribute("tpu-env", environment) or "")
    except Silent:
        return {}


def read_worker(environment: Mapping[str, str]) -> Worker | NoWorker:
    """Return this machine as a worker: from the metadata server, else from Kubernetes, which is JAX's order.

    Raises:
      LaunchError: The information cannot be used.
    """
    compute_engine = read_compute_engine_worker(environment)
    if isinstance(compute_engine, Worker):
        return compute_engine
    on_kubernetes = read_kubernetes_worker(environment)
    if isinstance(on_kubernetes, Worker):
        return on_kubernetes
    return NoWorker(reason=f"{compute_engine.reason}, and {on_kubernetes.reason}")


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

    `notes` are sentences to read before the start; `ssh_advice` is what to type when ssh is refused.
    """

    name: str
    workers: tuple[PodWorker, ...]
    notes: tuple[str, ...] = ()
    ssh_advice: str | None = None


SOURCES = {"gcetpu": "the metadata server", "gketpu": "Kubernetes (GKE)"}


def pod_of(worker: Worker) -> TpuPod:
    """Return the pod of a worker, if its own slice is the whole pod.

    Raises:
      OptionError: There are more slices.
    """
    if worker.slices > 1:
        raise OptionError(_several_slices(worker))
    name = worker.name or "this pod"
    return TpuPod(
        name=name,
        workers=tuple(
            PodWorker(
                index=index,
                slice_index=0,
                address=address,
                host=worker.hosts[index] or f"{name}-w-{index}".replace(" ", "-"),
                ssh_address=address,
                local=index == worker.index,
                environment=_environment(worker, index),
            )
            for index, address in enumerate(worker.addresses)
        ),
        ssh_advice="ssh between the workers of a pod is not set up by itself: make a key on this worker, and "
        "let the others accept it."
        if len(worker.addresses) > 1
        else None,
    )


def _environment(worker: Worker, index: int) -> dict[str, str]:
    """Return variables that sshd drops on Kubernetes; elsewhere libtpu asks the metadata server for them."""
    return {**worker.variables, "TPU_WORKER_ID": str(index)} if worker.form == "gketpu" else {}


def _several_slices(worker: Worker) -> str:
    own = (
        f"This machine is worker {worker.index} of slice {worker.slice_index} of {worker.slices}. "
        f"{SOURCES[worker.form][0].upper()}{SOURCES[worker.form][1:]} names the workers of this slice only "
        f"({', '.join(worker.addresses)}). "
    )
    if worker.form == "gcetpu":
        called = f"; this one is {worker.name}" if worker.name else ""
        return (
            f"{option('tpu')}: {own}Name all slices, in the order of their MEGASCALE_SLICE_ID: "
            f"{option('tpu', Placeholder('SLICE0,SLICE1'))} "
            f"{option('zone', worker.zone or Placeholder('ZONE'))}{called}."
        )
    return (
        f"{option('tpu')}: {own}Name all workers, slice by slice and each slice in the order of its "
        f"TPU_WORKER_ID: {option('hosts', Placeholder('HOST0:1,HOST1:1,…'))}."
    )
