"""What JAX would detect from the variables of a process: the same as JAX says itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import OptionError
from nbdist.launch.model.framework import accelerators
from nbdist.launch.planning import detect
from nbdist.launch.planning.detect import METHODS, Detected, asked, look
from nbdist.launch.tpu.discover import LIST_FILE
from tests.builders.jax_clusters import ask_jax
from tests.builders.pods import (
    GCE,
    MULTISLICE,
    NETWORK_CARD,
    V4,
    metadata_server,
    with_pci_devices,
)

SLURM = {
    "SLURM_JOB_ID": "7096",
    "SLURM_STEP_NODELIST": "n1",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OMPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}
OMPI_6 = {"OMPI_MCA_orte_hnp_uri": "1314521088.0;tcp6://[fe80::b9b,2620::2]:43370"}
OMPI_5 = {name: OMPI[name] for name in OMPI if "orte" not in name}
ELSEWHERE: list[dict[str, str]] = [
    {},
    SLURM,
    *({**SLURM, "SLURM_STEP_NODELIST": text} for text in ("n1,m2", "n[001-015],m2", "n-b[7,9]")),
    {**SLURM, "JAX_COORDINATOR_PORT": "5000"},
    {name: SLURM[name] for name in ("SLURM_JOB_ID", "SLURM_NTASKS")},
    {**SLURM, "SLURM_NTASKS": "many"},
    {**SLURM, "SLURM_JOB_ID": "x"},
    {**SLURM, "SLURM_JOB_ID": "x", "JAX_COORDINATOR_PORT": "5000"},
    OMPI,
    {**OMPI, **OMPI_6},
    {**OMPI, "JAX_COORDINATOR_PORT": "5000"},
    {name: OMPI[name] for name in OMPI if "orte" in name},
    OMPI_5,
    {**OMPI_5, "OMPI_VERSION": "5.0.3"},
    {**OMPI_5, "OMPI_VERSION": "4.1.6"},
    {**OMPI_5, "OMPI_VERSION": "unknown"},
    {**OMPI, "OMPI_VERSION": "4.1.6"},
    {**OMPI, "OMPI_VERSION": "5.0.3"},
    {**OMPI, "OMPI_VERSION": "unknown"},
    {**OMPI, "OMPI_MCA_orte_hnp_uri": "1.0;udp://"},
    {**SLURM, **OMPI},
    {"TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", "TPU_WORKER_ID": "1"},
    {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
]
NO_SLICES = {
    "MEGASCALE_COORDINATOR_ADDRESS": "",
    "MEGASCALE_NUM_SLICES": "",
    "MEGASCALE_SLICE_ID": "",
}
GKE = {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_ID": "1", **NO_SLICES}
SLICE = {
    "MEGASCALE_COORDINATOR_ADDRESS": "10.0.0.9:8080",
    "MEGASCALE_NUM_SLICES": "3",
    "MEGASCALE_SLICE_ID": "2",
}
ON_TPU: list[dict[str, str]] = [
    {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"},
    {**GKE, "TPU_WORKER_HOSTNAMES": "a", "TPU_PROCESS_ADDRESSES": "10.0.0.3:8476,10.0.0.4:8476"},
    {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", **SLICE},
    {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", "JAX_COORDINATOR_PORT": "5000"},
    {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1", **SLURM},
    {"TPU_SKIP_MDS_QUERY": "1"},
]


def detected(environment: Mapping[str, str], *, root: Path = Path("/")) -> Detected | None:
    """The cluster that JAX would detect by itself: it asks mpi4py only where it is told to."""
    found = (look(method, environment, root=root) for method in METHODS if method != "mpi4py")
    return next((each for each in found if each is not None), None)


def taken(found: Detected | None) -> dict[str, Any] | None:
    """As `ask_jax` has it, without the kind of error."""
    if found is None:
        return None
    if found.trouble is not None:
        return {"method": found.method}
    names = ("method", "processes", "process_id", "local_process_id", "coordinator")
    return {name: getattr(found, name) for name in names}


def without_errors(answers: list[dict[str, Any] | None]) -> list[dict[str, Any] | None]:
    return [answer and {k: v for k, v in answer.items() if k != "raised"} for answer in answers]


def test_it_is_what_jax_detects_on_machines_without_tpus() -> None:
    jax = ask_jax(ELSEWHERE, on_tpu=False)
    assert [taken(detected(each)) for each in ELSEWHERE] == without_errors(jax["found"])


def test_it_is_what_jax_detects_on_workers_of_pods(tmp_path: Path) -> None:
    chips = with_pci_devices(tmp_path, V4)
    with metadata_server(GCE) as single, metadata_server(MULTISLICE) as several:
        addresses = tmp_path / "addresses"
        addresses.write_text("10.0.0.5:8476,10.0.0.6:8476\n")
        in_file = {**GKE, LIST_FILE: str(addresses)}
        reported = [
            *ON_TPU,
            in_file,
            {**in_file, "TPU_PROCESS_ADDRESSES": "10.0.0.3:8476,10.0.0.4:8476,10.0.0.7:8476"},
            {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", LIST_FILE: ""},
            {"GCE_METADATA_IP": single},
            {"GCE_METADATA_IP": several},
            {"GCE_METADATA_IP": several, **SLICE, "JAX_COORDINATOR_PORT": "5000"},
            {"GCE_METADATA_IP": single, "TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "0"},
        ]
        here = [{**each, "JAX_FORCE_TPU_INIT": "1"} for each in reported]
        ours = [taken(detected(each, root=chips)) for each in here]
        jax = ask_jax(reported, on_tpu=True)
    assert ours == jax["found"]
    assert {found["method"] for found in ours if found} == {"gketpu", "gcetpu", "slurm"}


def test_the_names_of_methods_are_those_jax_has() -> None:
    # The base of both TPU methods, and Kubernetes, which has no name.
    assert [n for n in ask_jax([], on_tpu=False)["names"] if n not in ("tpu", "")] == list(METHODS)


def test_a_pod_is_detected_only_beside_chips_and_libtpu(tmp_path: Path) -> None:
    library = tmp_path / "libtpu.so"
    library.touch()
    chips = with_pci_devices(tmp_path / "chips", V4)
    card = with_pci_devices(tmp_path / "card", NETWORK_CARD)
    with metadata_server(GCE) as server:
        reported = {"GCE_METADATA_IP": server}
        with_library = {**reported, "TPU_LIBRARY_PATH": str(library)}
        found = detected(with_library, root=chips)
        assert found is not None
        assert (found.method, found.process_id, found.processes) == ("gcetpu", 1, 2)
        assert found.variables == {"agent-worker-number": "1"}
        assert detected(reported, root=chips) is None
        assert detected(with_library, root=card) is None
        # JAX then sets TPU_SKIP_MDS_QUERY for itself.
        assert detected({**reported, "JAX_FORCE_TPU_INIT": "1"}, root=card) is None
        assert (
            detected({**reported, "TPU_LIBRARY_PATH": str(tmp_path / "none")}, root=chips) is None
        )


def test_a_cluster_that_was_asked_for_says_what_jax_takes_from_it() -> None:
    found = asked("slurm", SLURM)
    assert found.used().startswith(
        "--cluster-detection-method slurm: Slurm found (SLURM_JOB_ID=7096"
    )
    assert "JAX takes local_device_ids=[1] from it, in each process of this host" in found.used()


def test_mpi4py_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "_installed", lambda module: module == "mpi4py")
    assert asked("mpi4py", {}).method == "mpi4py"
    assert "mpi4py found. JAX takes local_device_ids from it" in asked("mpi4py", {}).used()


@pytest.fixture
def with_jax(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Has another version of JAX installed, or none."""
    return lambda version: monkeypatch.setattr(detect, "version", lambda package: version)


def test_the_numbers_of_open_mpi_5_come_from_mpi4py(
    with_jax: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_jax("0.12.0.1")
    with pytest.raises(OptionError, match=r"Open MPI 5 needs mpi4py, which is not installed"):
        asked("ompi", OMPI_5)
    monkeypatch.setattr(detect, "_installed", lambda module: module == "mpi4py")
    found = asked("ompi", OMPI_5)
    assert (found.title, found.processes, found.local_process_id) == ("Open MPI 5", None, None)
    assert found.used() == (
        "--cluster-detection-method ompi: Open MPI 5 found (OMPI_COMM_WORLD_SIZE=8, OMPI_COMM_WORLD_RANK=5, "
        "OMPI_COMM_WORLD_LOCAL_RANK=1). JAX takes local_device_ids from it; nbdist passes the other arguments "
        "itself."
    )


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("0.11.1", r"version 5 sets it\)\. Leave"),
        ("0.11.2", r"version 5 sets it\), nor OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK \("),
        ("0.12.0.1", r"nor OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK \("),
        ("0.13.0.dev20261101", r"nor OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK \("),
        (None, r"version 5 sets it\)\. Leave"),
    ],
)
def test_what_open_mpi_has_not_set_is_named_as_the_installed_jax_looks_for_it(
    version: str | None, words: str, with_jax: Callable[[str | None], None]
) -> None:
    with_jax(version)
    with pytest.raises(OptionError, match=words):
        asked("ompi", {"OMPI_COMM_WORLD_LOCAL_RANK": "0"})


@pytest.mark.parametrize(("version", "index"), [("0.11.1", None), ("0.11.2", 1)])
def test_addresses_in_a_file_are_read_where_jax_reads_them(
    version: str, index: int | None, with_jax: Callable[[str | None], None], tmp_path: Path
) -> None:
    with_jax(version)
    addresses = tmp_path / "addresses"
    addresses.write_text("a,b")
    environment = {**GKE, "JAX_FORCE_TPU_INIT": "1", LIST_FILE: str(addresses)}
    found = detected(environment, root=tmp_path)
    assert (found and found.process_id) == index


def test_the_chips_counted_are_those_jax_counts(tmp_path: Path) -> None:
    # Private API: JAX's own table, which it shows nowhere else; an older JAX knows fewer chips.
    table = "from jax._src.hardware_utils import _TPU_PCI_DEVICE_IDS as t; print(*t)"
    done = subprocess.run([sys.executable, "-c", table], capture_output=True, text=True, check=True)
    known = done.stdout.split()
    assert len(known) >= 7
    assert accelerators("tpu", root=with_pci_devices(tmp_path, *known)) == len(known)


@pytest.mark.parametrize(
    ("method", "environment", "words"),
    [
        ("tpu", {}, r"tpu: known are deactivate, ompi, slurm, mpi4py, gcetpu, gketpu"),
        ("k8s", {}, r"k8s: known are"),
        ("slurm", {"SLURM_JOB_ID": "1"}, r"SLURM_LOCALID are not set \(srun sets them\)"),
        ("slurm", {**SLURM, "SLURM_PROCID": "x"}, r"could not read it here: SLURM_PROCID=x holds"),
        ("ompi", {}, r"OMPI_MCA_orte_hnp_uri is not set"),
        ("ompi", {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://a:1"}, r"OMPI_COMM_WORLD_SIZE is not set"),
        ("mpi4py", {}, r"mpi4py is not installed"),
        ("gcetpu", {}, r"this machine has no TPU chip, or no libtpu"),
        ("gketpu", {"JAX_FORCE_TPU_INIT": "1"}, r"neither TPU_PROCESS_ADDRESSES nor"),
        ("gcetpu", {"JAX_FORCE_TPU_INIT": "1"}, r"this machine has no TPU chip\."),
    ],
)
def test_a_method_that_would_fail_is_refused_with_the_reason(
    method: str, environment: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=words):
        asked(method, environment, root=tmp_path)


def test_a_pod_that_cannot_be_read_is_trouble_and_not_a_guess(tmp_path: Path) -> None:
    environment = {"JAX_FORCE_TPU_INIT": "1", "TPU_WORKER_HOSTNAMES": "a,b"}
    found = detected(environment, root=tmp_path)
    assert found is not None
    assert found.trouble is not None
    assert "TPU_WORKER_ID" in found.trouble
    assert found.process_id is None
    with pytest.raises(OptionError, match="TPU_WORKER_ID"):
        asked("gketpu", environment, root=tmp_path)
