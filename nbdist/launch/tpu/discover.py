"""Discovery of the pod that `--tpu` means, and of its workers.

A TPU that is named is looked up with `gcloud`. Without a name, the pod is the one that this machine is a worker
of: Google's metadata server describes it on Compute Engine, and the container's variables on Kubernetes (GKE).
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.tpu.gcloud import from_gcloud
from nbdist.launch.tpu.pod import (
    NoWorker,
    PodWorker,
    TpuPod,
    Worker,
    check_index,
    slices,
    whole_number,
)
from nbdist.spelling import Placeholder, option

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
    """No metadata server of Google answers; the text says what was seen."""


def attribute(name: str, environment: Mapping[str, str]) -> str | None:
    """Return one attribute of this machine, asked for without a proxy; None if there is none of that name.

    Source: https://cloud.google.com/compute/docs/metadata/querying-metadata.

    Args:
      name: The attribute.
      environment: `GCE_METADATA_IP` names another server, as it does for JAX.

    Raises:
      Silent: Nobody answers within 2 s, or another server than Google's.
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
    """Return the variables of several slices: the environment's if set, else those of `tpu-env`, as JAX does."""
    both = {**given, **environment}
    return {name: both[name] for name in MEGASCALE if name in both}


def endpoints(text: str) -> tuple[tuple[str, str], ...]:
    """Return host name (empty if not given) and address of each worker of the slice, in their order.

    Args:
      text: The attribute `worker-network-endpoints`: `NAME:ID:IP,…` or `ADDRESS,…`.

    Raises:
      LaunchError: It has neither form.
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
        kind = attribute("accelerator-type", environment) or given.get("ACCELERATOR_TYPE")
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
    of_slices = slices(megascale(environment, given))
    return Worker(
        form="gcetpu",
        index=index,
        addresses=addresses,
        hosts=tuple(name for name, _ in found),
        slices=of_slices.count,
        slice_index=of_slices.index,
        megascale_coordinator=of_slices.coordinator,
        name=given.get("NODE_ID"),
        zone=given.get("ZONE"),
        accelerator_type=kind,
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
    of_slices = slices(megascale(environment, _tpu_environment(environment)))
    return Worker(
        form="gketpu",
        index=index,
        addresses=addresses,
        hosts=addresses,
        slices=of_slices.count,
        slice_index=of_slices.index,
        megascale_coordinator=of_slices.coordinator,
        name=environment.get("HOSTNAME"),
        accelerator_type=environment.get("TPU_ACCELERATOR_TYPE"),
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


SOURCES = {"gcetpu": "the metadata server", "gketpu": "Kubernetes (GKE)"}


def find_pod(
    name: str | None, zone: str | None, project: str | None, environment: Mapping[str, str]
) -> TpuPod:
    """Return the pod that `--tpu [NAME] [--zone ZONE] [--project PROJECT]` means.

    Args:
      name: The TPU's name, or those of all its slices with commas between; None if this machine is one of
        its workers.
      zone: The zone of the name.
      project: The project of the name, None for the one `gcloud` is set to.
      environment: The kernel's, where a worker's variables and `gcloud` are looked for.

    Raises:
      OptionError: The options do not go together, or this machine is no worker and no name is given.
      LaunchError: The source of information about the pod fails, or its answer cannot be used.
    """
    if name is not None:
        if not zone:
            raise OptionError(
                f"{option('tpu', name)} without {option('zone')}: a TPU is found by name and zone. Write "
                f"{option('tpu', name)} {option('zone', Placeholder('ZONE'))}, such as us-central2-b; gcloud "
                f"compute tpus tpu-vm list --zone=- lists them all."
            )
        return from_gcloud(name, zone, project, environment)
    for what, value in (("zone", zone), ("project", project)):
        if value is not None:
            raise OptionError(
                f"{option(what, value)} without a name: write {option('tpu', Placeholder('NAME'))} "
                f"{option('zone', Placeholder('ZONE'))}. {option('tpu', 'here')} alone takes the pod that this "
                "machine is a worker of, and needs neither."
            )
    found = read_worker(environment)
    if isinstance(found, NoWorker):
        raise OptionError(
            f"{option('tpu')} without a name: this machine is no worker of a TPU pod: {found.reason}. From "
            f"another machine, name the TPU: {option('tpu', Placeholder('NAME'))} "
            f"{option('zone', Placeholder('ZONE'))}."
        )
    return pod_of(found)


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
        accelerator_type=worker.accelerator_type,
        slices=1,
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
        source=SOURCES[worker.form],
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
