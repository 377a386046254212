"""`--tpu`: the pod that is meant, and its workers."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.errors import OptionError
from nbdist.launch.tpu import kubernetes, metadata
from nbdist.launch.tpu.gcloud import from_gcloud
from nbdist.launch.tpu.pod import Pod, PodWorker
from nbdist.launch.tpu.worker import NoWorker, Worker
from nbdist.spelling import Placeholder, option

SOURCES = {"gcetpu": "the metadata server", "gketpu": "Kubernetes (GKE)"}


def find_pod(
    name: str | None, zone: str | None, project: str | None, environment: Mapping[str, str]
) -> Pod:
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
    compute_engine = metadata.read_worker(environment)
    if isinstance(compute_engine, Worker):
        return compute_engine
    on_kubernetes = kubernetes.read_worker(environment)
    if isinstance(on_kubernetes, Worker):
        return on_kubernetes
    return NoWorker(reason=f"{compute_engine.reason}, and {on_kubernetes.reason}")


def pod_of(worker: Worker) -> Pod:
    """Return the pod of a worker, if its own slice is the whole pod.

    Raises:
      OptionError: There are more slices.
    """
    if worker.slices > 1:
        raise OptionError(_several_slices(worker))
    name = worker.name or "this pod"
    return Pod(
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
