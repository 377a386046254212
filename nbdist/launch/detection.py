"""Detection of the cluster that JAX would find from environment variables, without importing JAX.

A person may name the method of detection, which is an argument of `jax.distributed.initialize`. nbdist still
passes coordinator, number of processes and process id itself, so JAX takes only the devices of a process from the
cluster. A start with a method is refused if JAX would not find that cluster, or would fail on it.

Source: jax/_src/clusters/ and jax/_src/cloud_tpu_init.py of jax 0.10.0 to 0.12.0.1. A test compares the result
with JAX's own.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.launchers import tpu_worker
from nbdist.launch.launchers.tpu_worker import NoWorker, Worker
from nbdist.machine import checkup
from nbdist.spelling import option

METHODS = ("ompi", "slurm", "mpi4py", "gcetpu", "gketpu")
"""JAX's names of detection methods, in its order. Its Kubernetes detection has no name and cannot be asked for."""

OFF = "deactivate"
"""JAX's name for no detection."""

SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
OMPI = "OMPI_MCA_orte_hnp_uri"
OMPI_NUMBERS = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
"""Variables through which JAX's connections may be led, in small or capital letters.

Source: the documentation of `jax.distributed.initialize` says that they can make it time out."""

WIDER_SINCE = (0, 11, 2)
"""The first JAX that detects Open MPI 5, and a file with the addresses of a pod on Kubernetes."""


class NotFound(Exception):
    """JAX would find no cluster with a method, or fail on it; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A cluster as JAX would see it.

    `method` is JAX's name for the method that finds it, `title` the name for a person. `variables` are the
    variables by which it is found. `local_process_id` is the number of the device that JAX would use; None: JAX
    uses all, or only the running process can tell.
    """

    method: str
    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    local_process_id: int | None = None

    def used(self) -> str:
        """Return the sentence about a start with `--cluster-detection-method`."""
        shown = ", ".join(f"{name}={value}" for name, value in self.variables.items())
        if self.local_process_id is not None:
            taken = f"JAX takes local_device_ids=[{self.local_process_id}] from it, in each process of this host"
        elif self.method in ("mpi4py", "ompi"):
            # For Open MPI 5, JAX gets the numbers from mpi4py.
            taken = "JAX takes local_device_ids from it"
        else:
            taken = "JAX takes nothing from it"
        return (
            f"{option('cluster_detection_method', self.method)}: {self.title} found"
            f"{f' ({shown})' if shown else ''}. {taken}; nbdist passes the other arguments itself."
        )


def detected(method: str, environment: Mapping[str, str], *, root: Path = Path("/")) -> Detected:
    """Return the cluster that `--cluster-detection-method` names.

    `gcetpu` asks the metadata server, but only on a machine with TPU chips and libtpu.

    Args:
      method: One of `METHODS`.
      environment: The variables of a process that would call `jax.distributed.initialize`.
      root: The file system's root; tests give another.

    Raises:
      OptionError: JAX would not find that cluster here, or would fail on it.
    """
    try:
        return _DETECTORS[method](environment, root)
    except NotFound as error:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: JAX would not find it here: {error}. Leave the option "
            "out: nbdist passes every argument itself."
        ) from error
    except (LaunchError, ValueError) as error:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: JAX could not read it here: {error}. Leave the option "
            "out: nbdist passes every argument itself."
        ) from error


def _open_mpi(environment: Mapping[str, str], root: Path) -> Detected:
    """Return the cluster of Open MPI; from version 5 on it sets no address, and JAX gets all facts from mpi4py."""
    more = _jax_detects_more()
    if more and _is_open_mpi_5(environment):
        if not _installed("mpi4py"):
            raise ValueError("Open MPI 5 needs mpi4py, which is not installed")
        return Detected(
            method="ompi", title="Open MPI 5", variables=_set_in(environment, OMPI_NUMBERS)
        )
    if OMPI not in environment:
        older = f"{OMPI} is not set (mpirun of Open MPI before version 5 sets it)"
        missing = [name for name in OMPI_NUMBERS if name not in environment]
        newer = f", nor {' and '.join(missing)} (version 5 sets all three)" if more else ""
        raise NotFound(f"{older}{newer}")
    return Detected(
        method="ompi",
        title="Open MPI",
        variables=_set_in(environment, (OMPI, *OMPI_NUMBERS)),
        local_process_id=_number(environment, OMPI_NUMBERS[-1]),
    )


def _is_open_mpi_5(environment: Mapping[str, str]) -> bool:
    if not all(name in environment for name in OMPI_NUMBERS):
        return False
    try:
        return int(environment.get("OMPI_VERSION", "").split(".")[0]) >= 5
    except ValueError:
        return OMPI not in environment


def _slurm(environment: Mapping[str, str], root: Path) -> Detected:
    """Return the cluster of a Slurm step; the shell of an allocation lacks some variables and is refused."""
    missing = [name for name in SLURM if name not in environment]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise NotFound(f"{', '.join(missing)} {are} not set (srun sets them)")
    shown = [name for name in SLURM if name != "SLURM_STEP_NODELIST"]
    return Detected(
        method="slurm",
        title="Slurm",
        variables=_set_in(environment, shown),
        local_process_id=_number(environment, "SLURM_LOCALID"),
    )


def _mpi4py(environment: Mapping[str, str], root: Path) -> Detected:
    """Return the cluster of mpi4py, which alone knows the numbers; JAX uses it on request only."""
    if not _installed("mpi4py"):
        raise NotFound("mpi4py is not installed")
    return Detected(method="mpi4py", title="mpi4py")


def _compute_engine(environment: Mapping[str, str], root: Path) -> Detected:
    _refuse_without_tpu(environment, root)
    # Without a chip JAX itself sets TPU_SKIP_MDS_QUERY.
    if not checkup.accelerators(root)["tpus"]:
        raise NotFound("this machine has no TPU chip")
    worker = _worker(tpu_worker.read_compute_engine_worker, environment)
    shown = {"agent-worker-number": str(worker.index), **_of_pod(environment)}
    return Detected(method="gcetpu", title="TPU pod on Compute Engine", variables=shown)


def _kubernetes_tpu(environment: Mapping[str, str], root: Path) -> Detected:
    _refuse_without_tpu(environment, root)
    if not _jax_detects_more():
        environment = {k: v for k, v in environment.items() if k != tpu_worker.LIST_FILE}
    _worker(tpu_worker.read_kubernetes_worker, environment)
    shown = _of_pod(environment)
    return Detected(method="gketpu", title="TPU pod on Kubernetes", variables=shown)


def _refuse_without_tpu(environment: Mapping[str, str], root: Path) -> None:
    """Refuse what JAX takes for no Cloud TPU VM: libtpu or a chip is missing, and no variable overrides that."""
    if "JAX_FORCE_TPU_INIT" in environment:
        return
    named = environment.get("TPU_LIBRARY_PATH")
    has_library = (named is not None and Path(named).is_file()) or _installed("libtpu")
    if not has_library or not checkup.accelerators(root)["tpus"]:
        raise NotFound("this machine has no TPU chip, or no libtpu")


def _worker(
    read: Callable[[Mapping[str, str]], Worker | NoWorker], environment: Mapping[str, str]
) -> Worker:
    found = read(environment)
    if isinstance(found, NoWorker):
        raise NotFound(found.reason)
    return found


def _of_pod(environment: Mapping[str, str]) -> dict[str, str]:
    lists = (tpu_worker.LIST_FILE, *tpu_worker.LISTS, "TPU_WORKER_ID", *tpu_worker.MEGASCALE)
    return _set_in(environment, lists)


_DETECTORS: Mapping[str, Callable[[Mapping[str, str], Path], Detected]] = {
    "ompi": _open_mpi,
    "slurm": _slurm,
    "mpi4py": _mpi4py,
    "gcetpu": _compute_engine,
    "gketpu": _kubernetes_tpu,
}


def _set_in(environment: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: environment[name] for name in names if name in environment}


def _number(environment: Mapping[str, str], name: str) -> int:
    if name not in environment:
        raise ValueError(f"{name} is not set")
    try:
        return int(environment[name])
    except ValueError:
        raise ValueError(f"{name}={environment[name]} holds no number") from None


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _jax_detects_more() -> bool:
    """Return whether the JAX of this environment is `WIDER_SINCE` or newer."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", checkup.version("jax") or "")
    return numbers is not None and tuple(map(int, numbers.groups())) >= WIDER_SINCE
