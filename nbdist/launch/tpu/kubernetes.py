"""A worker of a pod on Kubernetes (GKE), described by variables that GKE puts into each container.

Source: https://cloud.google.com/kubernetes-engine/docs/how-to/tpus and jax/_src/clusters/cloud_tpu_cluster.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nbdist.errors import LaunchError
from nbdist.launch.tpu import metadata
from nbdist.launch.tpu.worker import NoWorker, Worker, check_index, slices, whole_number

LISTS = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
"""Variables that name the workers of a slice; the first that is set decides."""
LIST_FILE = "TPU_PROCESS_ADDRESSES_PATH"
"""A variable with the path of a file that names the workers; it has priority. JAX reads it since 0.11.2."""


def read_worker(environment: Mapping[str, str]) -> Worker | NoWorker:
    """Return this machine as a worker of a pod on Kubernetes.

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
    of_slices = slices(metadata.megascale(environment, _tpu_environment(environment)))
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
    if all(name in environment for name in metadata.MEGASCALE):
        return {}
    try:
        return metadata.tpu_environment(metadata.attribute("tpu-env", environment) or "")
    except metadata.Silent:
        return {}
