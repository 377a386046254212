"""What JAX would detect from the variables of a process: the same as JAX says itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nbdist.errors import OptionError
from nbdist.launch import detection
from nbdist.launch.detection import METHODS, detected
from nbdist.launch.launchers.tpu_worker import LIST_FILE
from nbdist.machine import checkup
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
OMPI_5 = {name: OMPI[name] for name in OMPI if "orte" not in name}
ELSEWHERE: list[dict[str, str]] = [
    {},
    SLURM,
    {name: SLURM[name] for name in ("SLURM_JOB_ID", "SLURM_NTASKS")},
    {**SLURM, "SLURM_LOCALID": "x"},
    {**SLURM, "SLURM_NTASKS": "many"},
    OMPI,
    {name: OMPI[name] for name in OMPI if "orte" in name},
    {**OMPI, "OMPI_COMM_WORLD_LOCAL_RANK": "x"},
    OMPI_5,
    *({**OMPI_5, "OMPI_VERSION": version} for version in ("5.0.3", "4.1.6", "unknown")),
    *({**OMPI, "OMPI_VERSION": version} for version in ("5.0.3", "4.1.6", "unknown")),
    {**SLURM, **OMPI},
    {"TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", "TPU_WORKER_ID": "1"},
    {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
]
GKE = {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_ID": "1", "MEGASCALE_NUM_SLICES": ""}
ON_TPU: list[dict[str, str]] = [
    {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2"},
    {**GKE, "TPU_WORKER_HOSTNAMES": "a", "TPU_PROCESS_ADDRESSES": "10.0.0.3:8476,10.0.0.4:8476"},
    {**GKE, "TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "10.0.0.1", **SLURM},
    {"TPU_SKIP_MDS_QUERY": "1"},
]


def found_here(environment: Mapping[str, str], *, root: Path = Path("/")) -> object:
    """What JAX would detect by itself, as `ask_jax` has it; it asks mpi4py only where it is told to."""
    for method in METHODS:
        if method == "mpi4py":
            continue
        try:
            found = detected(method, environment, root=root)
        except OptionError as error:
            if "could not read it here" in str(error):
                return {"method": method}
            continue
        return {"method": method, "local_process_id": found.local_process_id}
    return None


def test_it_is_what_jax_detects_on_machines_without_tpus() -> None:
    found = ask_jax(ELSEWHERE, on_tpu=False)["found"]
    assert [found_here(each) for each in ELSEWHERE] == found
    assert {one["method"] for one in found if one} == {"slurm", "ompi"}


def test_it_is_what_jax_detects_on_workers_of_pods(tmp_path: Path) -> None:
    chips = with_pci_devices(tmp_path, V4)
    addresses = tmp_path / "addresses"
    addresses.write_text("10.0.0.5:8476,10.0.0.6:8476\n")
    with metadata_server(GCE) as single, metadata_server(MULTISLICE) as several:
        reported = [
            *ON_TPU,
            {**GKE, LIST_FILE: str(addresses)},
            {**GKE, "TPU_WORKER_HOSTNAMES": "10.0.0.1,10.0.0.2", LIST_FILE: ""},
            {"GCE_METADATA_IP": single},
            {"GCE_METADATA_IP": several},
            {"GCE_METADATA_IP": single, "TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "0"},
        ]
        here = [{**each, "JAX_FORCE_TPU_INIT": "1"} for each in reported]
        ours = [found_here(each, root=chips) for each in here]
        jax = ask_jax(reported, on_tpu=True)["found"]
    assert ours == jax
    assert {found["method"] for found in jax if found} == {"gketpu", "gcetpu", "slurm"}


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
        found = detected("gcetpu", with_library, root=chips)
        assert found.variables == {"agent-worker-number": "1"}
        for environment, root in (
            (reported, chips),
            (with_library, card),
            # JAX then sets TPU_SKIP_MDS_QUERY for itself.
            ({**reported, "JAX_FORCE_TPU_INIT": "1"}, card),
            ({**reported, "TPU_LIBRARY_PATH": str(tmp_path / "none")}, chips),
        ):
            assert found_here(environment, root=root) is None


def test_a_cluster_that_was_asked_for_says_what_jax_takes_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = detected("slurm", SLURM).used()
    assert said == (
        "--cluster-detection-method slurm: Slurm found (SLURM_JOB_ID=7096, SLURM_NTASKS=4, SLURM_PROCID=3, "
        "SLURM_LOCALID=1). JAX takes local_device_ids=[1] from it, in each process of this host; nbdist passes "
        "the other arguments itself."
    )
    monkeypatch.setattr(detection, "_installed", lambda module: module == "mpi4py")
    assert "mpi4py found. JAX takes local_device_ids" in detected("mpi4py", {}).used()


@pytest.fixture
def with_jax(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Has another version of JAX installed, or none."""
    return lambda version: monkeypatch.setattr(checkup, "version", lambda package: version)


def test_the_numbers_of_open_mpi_5_come_from_mpi4py(
    with_jax: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_jax("0.12.0.1")
    with pytest.raises(OptionError, match="mpi4py"):
        detected("ompi", OMPI_5)
    monkeypatch.setattr(detection, "_installed", lambda module: module == "mpi4py")
    found = detected("ompi", OMPI_5)
    assert (found.title, found.local_process_id) == ("Open MPI 5", None)
    assert "OMPI_COMM_WORLD_SIZE=8" in found.used()


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("0.11.1", False),
        ("0.11.2", True),
        ("0.12.0.1", True),
        ("0.13.0.dev20261101", True),
        (None, False),
    ],
)
def test_what_open_mpi_has_not_set_is_named_as_the_installed_jax_looks_for_it(
    version: str | None, named: bool, with_jax: Callable[[str | None], None]
) -> None:
    with_jax(version)
    with pytest.raises(OptionError, match="OMPI_MCA_orte_hnp_uri") as raised:
        detected("ompi", {"OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert ("OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_RANK" in str(raised.value)) is named


@pytest.mark.parametrize(("version", "read"), [("0.11.1", False), ("0.11.2", True)])
def test_addresses_in_a_file_are_read_where_jax_reads_them(
    version: str, read: bool, with_jax: Callable[[str | None], None], tmp_path: Path
) -> None:
    with_jax(version)
    addresses = tmp_path / "addresses"
    addresses.write_text("a,b")
    environment = {**GKE, "JAX_FORCE_TPU_INIT": "1", LIST_FILE: str(addresses)}
    assert (found_here(environment, root=tmp_path) is not None) is read


def test_the_chips_counted_are_those_jax_counts(tmp_path: Path) -> None:
    # Private API: JAX's own table, which it shows nowhere else; an older JAX knows fewer chips.
    table = "from jax._src.hardware_utils import _TPU_PCI_DEVICE_IDS as t; print(*t)"
    done = subprocess.run([sys.executable, "-c", table], capture_output=True, text=True, check=True)
    known = done.stdout.split()
    assert len(known) >= 7
    found = checkup.accelerators(with_pci_devices(tmp_path, *known))
    assert found == {"gpus": 0, "tpus": len(known)}


@pytest.mark.parametrize(
    ("method", "environment", "named"),
    [
        ("slurm", {"SLURM_JOB_ID": "1"}, "SLURM_LOCALID"),
        ("slurm", {**SLURM, "SLURM_LOCALID": "x"}, "SLURM_LOCALID=x"),
        ("ompi", {}, "OMPI_MCA_orte_hnp_uri"),
        ("ompi", {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://a:1"}, "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("mpi4py", {}, "mpi4py"),
        ("gcetpu", {}, "no TPU chip, or no libtpu"),
        ("gketpu", {"JAX_FORCE_TPU_INIT": "1"}, "TPU_PROCESS_ADDRESSES"),
        ("gcetpu", {"JAX_FORCE_TPU_INIT": "1"}, "no TPU chip. "),
        ("gketpu", {"JAX_FORCE_TPU_INIT": "1", "TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_ID"),
    ],
)
def test_a_method_that_would_fail_is_refused_with_the_reason(
    method: str, environment: dict[str, str], named: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=re.escape(named)):
        detected(method, environment, root=tmp_path)
