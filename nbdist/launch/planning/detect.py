"""Detection of the cluster that JAX would find by itself from a process's variables, without importing JAX.

A person may name the method of detection, as one of the arguments of `jax.distributed.initialize`; a start with it
is refused if JAX would not find that cluster, or would fail on it.

Source: jax/_src/clusters/ and jax/_src/cloud_tpu_init.py of jax 0.10.0 to 0.12.0.1. A test asks JAX itself for
the same.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.model.framework import accelerators
from nbdist.launch.tpu import discover
from nbdist.launch.tpu.pod import COORDINATOR_PORT, NoWorker, Worker
from nbdist.machine.checkup import version
from nbdist.spelling import option

METHODS = ("ompi", "slurm", "mpi4py", "gcetpu", "gketpu")
"""JAX's names of detection methods, in its order. Its Kubernetes detection has no name and cannot be asked for."""

DETECTION_METHODS = ("deactivate", *METHODS)

_ARGUMENTS = {
    "cluster_detection_method": "cluster_detection_method",
    "initialization_timeout_s": "initialization_timeout",
    "heartbeat_timeout_s": "heartbeat_timeout_seconds",
    "shutdown_timeout_s": "shutdown_timeout_seconds",
    "coordinator_bind_address": "coordinator_bind_address",
}


def asked_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a person has given, under the names of `jax.distributed.initialize` for them.

    Raises:
      OptionError: An unknown name, or an impossible value.
    """
    unknown = sorted(set(asked) - set(_ARGUMENTS))
    if unknown:
        raise OptionError(f"nbdist.start() has no argument {unknown[0]!r}.")
    found = {_ARGUMENTS[name]: value for name, value in asked.items() if value is not None}
    for name, value in found.items():
        if name.endswith(("timeout", "seconds")) and value <= 0:
            raise OptionError(f"{name}={value}: must be more than 0 seconds.")
    method = found.get("cluster_detection_method")
    if method is not None and method not in DETECTION_METHODS:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: known are {', '.join(DETECTION_METHODS)}."
        )
    return found


SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
OMPI = "OMPI_MCA_orte_hnp_uri"
OMPI_NUMBERS = {
    "processes": "OMPI_COMM_WORLD_SIZE",
    "process_id": "OMPI_COMM_WORLD_RANK",
    "local_process_id": "OMPI_COMM_WORLD_LOCAL_RANK",
}

WIDER_SINCE = (0, 11, 2)
"""The first JAX that detects Open MPI 5, and a file with the addresses of a pod on Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A cluster as JAX would see it.

    `method` is JAX's name for the method that finds it, `title` the name for a person. `variables` are those by
    which it is found. The other fields are what JAX would use if they are not given: None if only the running
    process could say.
    `trouble` says why JAX would fail instead.
    """

    method: str
    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    processes: int | None = None
    process_id: int | None = None
    local_process_id: int | None = None
    coordinator: str | None = None
    trouble: str | None = None

    @property
    def evidence(self) -> str:
        """The variables, such as `SLURM_JOB_ID=12, SLURM_PROCID=0`."""
        return ", ".join(f"{name}={value}" for name, value in self.variables.items())

    def used(self) -> str:
        """Return the sentence about a start with `--cluster-detection-method`.

        nbdist passes coordinator, number of processes and process id all the same; JAX detects a cluster only for
        the devices of a process.
        """
        found = f" ({self.evidence})" if self.variables else ""
        if self.local_process_id is not None:
            taken = f"JAX takes local_device_ids=[{self.local_process_id}] from it, in each process of this host"
        elif self.method in ("mpi4py", "ompi"):
            # For Open MPI 5, JAX gets the numbers from mpi4py.
            taken = "JAX takes local_device_ids from it"
        else:
            taken = "JAX takes nothing from it"
        return (
            f"{option('cluster_detection_method', self.method)}: {self.title} found{found}. {taken}; nbdist "
            "passes the other arguments itself."
        )


def look(method: str, environment: Mapping[str, str], *, root: Path = Path("/")) -> Detected | None:
    """Return the cluster that JAX would find with one of `METHODS`; None if it would find none.

    `gcetpu` asks the metadata server on a machine with TPU chips and libtpu, and nobody elsewhere.

    Args:
      method: JAX's name for the method.
      environment: The variables of a process that would call `jax.distributed.initialize`.
      root: The file system's root; tests give another.
    """
    return _LOOKS[method](environment, root)


def asked(method: str, environment: Mapping[str, str], *, root: Path = Path("/")) -> Detected:
    """Return the cluster that `--cluster-detection-method` names.

    Raises:
      OptionError: JAX knows no such method, or would not find that cluster here, or would fail on it.
    """
    if method not in METHODS:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: known are deactivate, {', '.join(METHODS)}."
        )
    found = look(method, environment, root=root)
    if found is None:
        why = f"JAX would not find it here: {_missing(method, environment, root)}"
    elif found.trouble is not None:
        why = f"JAX could not read it here: {found.trouble}"
    else:
        return found
    raise OptionError(
        f"{option('cluster_detection_method', method)}: {why}. Leave the option out: nbdist passes every "
        "argument itself."
    )


def _open_mpi(environment: Mapping[str, str], root: Path) -> Detected | None:
    """Return a cluster of Open MPI; from version 5 on it sets no address, and JAX gets all facts from mpi4py."""
    if _jax_detects_more() and _is_open_mpi_5(environment):
        shown = {name: environment[name] for name in OMPI_NUMBERS.values()}
        trouble = (
            None if _installed("mpi4py") else "Open MPI 5 needs mpi4py, which is not installed"
        )
        return Detected(method="ompi", title="Open MPI 5", variables=shown, trouble=trouble)
    if OMPI not in environment:
        return None
    return _counted("ompi", "Open MPI", OMPI, OMPI_NUMBERS, environment, _open_mpi_coordinator)


def _is_open_mpi_5(environment: Mapping[str, str]) -> bool:
    if not all(name in environment for name in OMPI_NUMBERS.values()):
        return False
    try:
        return int(environment.get("OMPI_VERSION", "").split(".")[0]) >= 5
    except ValueError:
        return OMPI not in environment


def _open_mpi_coordinator(environment: Mapping[str, str]) -> str:
    uri = environment[OMPI]
    address = re.search(r"tcp://(.+?)[,:]|tcp6://\[(.+?)[,\]]", uri)
    if address is None:
        raise ValueError(f"{OMPI}={uri} names no address")
    port = environment.get("JAX_COORDINATOR_PORT")
    job = uri.split(".", maxsplit=1)[0]
    return f"{address[1] or address[2]}:{port or _port(_number(job, OMPI) // 2**12)}"


def _slurm(environment: Mapping[str, str], root: Path) -> Detected | None:
    """Return a cluster of a Slurm step; the shell of an allocation lacks some of the variables and is not one."""
    if not all(name in environment for name in SLURM):
        return None
    names = {
        "processes": "SLURM_NTASKS",
        "process_id": "SLURM_PROCID",
        "local_process_id": "SLURM_LOCALID",
    }
    return _counted("slurm", "Slurm", SLURM[0], names, environment, _slurm_coordinator)


def _slurm_coordinator(environment: Mapping[str, str]) -> str:
    """Return the first host of a list such as `n[001-003,7],m2`, cut out as JAX does."""
    first = re.match(r"([^,\[]*)(?:\[([^,\-]*))?", environment["SLURM_STEP_NODELIST"])
    assert first is not None
    port = environment.get("JAX_COORDINATOR_PORT")
    job = environment["SLURM_JOB_ID"]
    return f"{first[1]}{first[2] or ''}:{port or _port(_number(job, 'SLURM_JOB_ID'))}"


def _port(job: int) -> int:
    """Return the port that JAX derives from a job's number, in the range of ephemeral ports."""
    return job % 2**12 + (65535 - 2**12 + 1)


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text} holds no number") from None


def _counted(
    method: str,
    title: str,
    sign: str,
    names: Mapping[str, str],
    environment: Mapping[str, str],
    coordinator: Callable[[Mapping[str, str]], str],
) -> Detected:
    """Return a cluster whose numbers are variables; `sign` is the variable that shows it."""
    shown = {name: environment[name] for name in (sign, *names.values()) if name in environment}
    try:
        numbers = {key: _number(environment[name], name) for key, name in names.items()}
        address = coordinator(environment)
    except KeyError as error:
        trouble = f"{error.args[0]} is not set"
        return Detected(method=method, title=title, variables=shown, trouble=trouble)
    except ValueError as error:
        return Detected(method=method, title=title, variables=shown, trouble=str(error))
    return Detected(
        method=method,
        title=title,
        variables=shown,
        coordinator=address,
        processes=numbers["processes"],
        process_id=numbers["process_id"],
        local_process_id=numbers["local_process_id"],
    )


def _mpi4py(environment: Mapping[str, str], root: Path) -> Detected | None:
    """Return a cluster through mpi4py, which alone knows the numbers; JAX uses it on request only."""
    return Detected(method="mpi4py", title="mpi4py") if _installed("mpi4py") else None


def _compute_engine(environment: Mapping[str, str], root: Path) -> Detected | None:
    # Without a chip JAX itself sets TPU_SKIP_MDS_QUERY.
    if not _on_tpu_machine(environment, root) or not accelerators("tpu", root=root):
        return None
    return _of_pod(
        "gcetpu", "TPU pod on Compute Engine", discover.read_compute_engine_worker, environment
    )


def _kubernetes_tpu(environment: Mapping[str, str], root: Path) -> Detected | None:
    if not _on_tpu_machine(environment, root):
        return None
    return _of_pod("gketpu", "TPU pod on Kubernetes", discover.read_kubernetes_worker, environment)


def _of_pod(
    method: str,
    title: str,
    read: Callable[[Mapping[str, str]], Worker | NoWorker],
    environment: Mapping[str, str],
) -> Detected | None:
    if not _jax_detects_more():
        environment = {k: v for k, v in environment.items() if k != discover.LIST_FILE}
    names = (discover.LIST_FILE, *discover.LISTS, "TPU_WORKER_ID", *discover.MEGASCALE)
    shown = {name: environment[name] for name in names if name in environment}
    try:
        worker = read(environment)
    except LaunchError as error:
        return Detected(method=method, title=title, variables=shown, trouble=str(error))
    if isinstance(worker, NoWorker):
        return None
    if method == "gcetpu":
        shown = {"agent-worker-number": str(worker.index), **shown}
    port = environment.get("JAX_COORDINATOR_PORT") or COORDINATOR_PORT
    return Detected(
        method=method,
        title=title,
        variables=shown,
        processes=worker.processes,
        process_id=worker.process_id,
        coordinator=f"{worker.coordinator_host}:{port}",
    )


_LOOKS: dict[str, Callable[[Mapping[str, str], Path], Detected | None]] = {
    "ompi": _open_mpi,
    "slurm": _slurm,
    "mpi4py": _mpi4py,
    "gcetpu": _compute_engine,
    "gketpu": _kubernetes_tpu,
}


def _on_tpu_machine(environment: Mapping[str, str], root: Path) -> bool:
    """Return whether JAX takes this for a Cloud TPU VM: libtpu and a chip, or a variable that says so."""
    if "JAX_FORCE_TPU_INIT" in environment:
        return True
    named = environment.get("TPU_LIBRARY_PATH")
    has_library = (named is not None and Path(named).is_file()) or _installed("libtpu")
    return has_library and accelerators("tpu", root=root) > 0


def _missing(method: str, environment: Mapping[str, str], root: Path) -> str:
    """Return why a cluster is not found."""
    if method == "slurm":
        names = [name for name in SLURM if name not in environment]
        return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not set (srun sets them)"
    if method == "ompi":
        older = f"{OMPI} is not set (mpirun of Open MPI before version 5 sets it)"
        if not _jax_detects_more():
            return older
        names = [name for name in OMPI_NUMBERS.values() if name not in environment]
        return f"{older}, nor {' and '.join(names)} (version 5 sets all three)"
    if method == "mpi4py":
        return "mpi4py is not installed"
    if not _on_tpu_machine(environment, root):
        return "this machine has no TPU chip, or no libtpu"
    if method == "gcetpu" and not accelerators("tpu", root=root):
        return "this machine has no TPU chip"
    read = (
        discover.read_compute_engine_worker
        if method == "gcetpu"
        else discover.read_kubernetes_worker
    )
    found = read(environment)
    return found.reason if isinstance(found, NoWorker) else "it was not there a moment ago"


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _jax_detects_more() -> bool:
    """Return whether the JAX of this environment is `WIDER_SINCE` or newer."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version("jax") or "")
    return numbers is not None and tuple(map(int, numbers.groups())) >= WIDER_SINCE
