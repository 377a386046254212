"""TPU pods on test hosts: the metadata server, gcloud's files for ssh and the chips are stand-ins.

JAX's own bare `initialize` forms the cluster that is compared with; nothing here has seen a TPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import nbdist
from tests.hosts.left import Left
from tests.testbed.fixtures import need
from tests.testbed.hosts import ENVIRONMENT, ROOT, HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.testbed.tpu import VARIABLES, give_chips, pod_metadata

ORDER = ("h2", "h3", "h1")
"""The pod's own numbering, which is not that of the names."""
NODE_ID = "1234567890123456789"

LOOK = """
import json, os
import jax
from nbdist.errors import OptionError
from nbdist.launch.detection import detected
from nbdist.launch.launchers.tpu import find_pod, pod_hosts

try:
    pod = find_pod(None, None, None, os.environ)
    described = [host.name for host in pod_hosts(pod)]
except OptionError as error:
    described = str(error)
jax.distributed.initialize(initialization_timeout=60)
print(json.dumps({
    "described": described,
    "detected": detected(os.environ["METHOD"], os.environ).method,
    "jax": [jax.process_index(), jax.process_count()],
}))
"""


def look(hosts: TestBed, variables: Mapping[int, Mapping[str, str]], method: str) -> dict[int, Any]:
    """What nbdist and JAX find on these hosts, by the host's number; JAX forms a cluster of them."""
    running = {}
    for i, own in variables.items():
        given = {**VARIABLES, "PYTHONPATH": str(ROOT), "METHOD": method, **own}
        words = [f"{name}={value}" for name, value in given.items()]
        running[i] = subprocess.Popen(
            hosts.command(i, "env", *words, sys.executable, "-c", LOOK),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
    said = {i: process.communicate(timeout=120)[0] for i, process in running.items()}
    assert {i: process.returncode for i, process in running.items()} == dict.fromkeys(running, 0)
    return {i: json.loads(each) for i, each in said.items()}


@pytest.fixture(scope="module")
def hosts() -> Iterator[TestBed]:
    """Three hosts that are the workers of one pod."""
    need(why_no_hosts())
    options = {
        i: HostOptions(metadata=pod_metadata(ORDER, ORDER.index(f"h{i}"))) for i in (1, 2, 3)
    }
    with TestBed(3, options=options) as bed:
        for i in (1, 2, 3):
            give_chips(bed, i)
        yield bed


def test_each_worker_finds_the_pod_that_jax_forms_by_itself(hosts: TestBed) -> None:
    for i, answer in look(hosts, {1: {}, 2: {}, 3: {}}, "gcetpu").items():
        own = ORDER.index(f"h{i}")
        names = ["localhost" if name == f"h{i}" else name for name in ORDER]
        assert (answer["described"], answer["detected"]) == (names, "gcetpu")
        assert answer["jax"] == [own, 3]


def test_slices_on_kubernetes_count_as_jax_counts_them_and_are_all_to_be_named(
    hosts: TestBed,
) -> None:
    shared = {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_ID": "0",
        "MEGASCALE_COORDINATOR_ADDRESS": "h3:8080",
        "MEGASCALE_NUM_SLICES": "2",
        "JAX_COORDINATOR_PORT": "8483",
    }
    of_slice = {
        3: {**shared, "TPU_WORKER_HOSTNAMES": "h3", "MEGASCALE_SLICE_ID": "0"},
        1: {**shared, "TPU_PROCESS_ADDRESSES": "h1:8476", "MEGASCALE_SLICE_ID": "1"},
    }
    for i, answer in look(hosts, of_slice, "gketpu").items():
        own = int(of_slice[i]["MEGASCALE_SLICE_ID"])
        assert f"worker 0 of slice {own} of 2." in answer["described"]
        assert "hosts=HOST0:1,HOST1:1" in answer["described"]
        assert answer["detected"] == "gketpu"
        assert answer["jax"] == [own, 2]


@pytest.fixture
def gcloud(hosts: TestBed, tmp_path: Path) -> dict[str, str]:
    """Variables with which the stand-in for gcloud knows the pod as `t1`, and its files for ssh are there."""
    inside = [hosts.address(int(name[1:])) for name in ORDER]
    node = {
        "id": NODE_ID,
        "state": "READY",
        "acceleratorType": "v4-24",
        "networkEndpoints": [{"ipAddress": address, "port": 8470} for address in inside],
    }
    (tmp_path / "t1.json").write_text(json.dumps(node))
    (tmp_path / ".ssh").mkdir()
    key = tmp_path / ".ssh/google_compute_engine"
    key.write_bytes((hosts.folder / "id").read_bytes())
    key.chmod(0o600)
    lines = []
    for index, name in enumerate(ORDER):
        kind, host_key, *_ = (hosts.folder / name / "hostkey.pub").read_text().split()
        lines.append(f"tpu.{NODE_ID}-{index}-{host_key[-6:].lower()} {kind} {host_key}\n")
    (tmp_path / ".ssh/google_compute_known_hosts").write_text("".join(lines))
    (tmp_path / "ssh_config").touch()
    path = f"{ROOT}/tests/testbed:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path), "GCLOUD_STAND_IN": str(tmp_path)}


def test_a_session_runs_on_the_workers_that_gcloud_names_with_gclouds_keys_alone(
    hosts: TestBed, left: Left, gcloud: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in gcloud.items():
        monkeypatch.setenv(name, value)
    # Neither this machine's configuration of ssh nor the bed's.
    config = str(Path(gcloud["HOME"]) / "ssh_config")
    with nbdist.start(tpu="t1", zone="us-central2-b", platform="cpu", ssh_config=config) as session:
        session.run("import jax, socket\nhere = (jax.process_index(), socket.gethostname())")
        found = [session.pull("here", on=str(process)) for process in range(3)]
        assert session.hosts == {0: "t1-w-0", 1: "t1-w-1", 2: "t1-w-2"}
    assert found == [(0, "h2"), (1, "h3"), (2, "h1")]
    left.nothing()


SESSION = """
import sys
import nbdist

with nbdist.start(tpu="here", platform="cpu", ssh_config=sys.argv[1]) as session:
    session.run("import jax, socket\\nhere = (jax.process_index(), socket.gethostname())")
    print([session.pull("here", on=str(process)) for process in range(3)])
"""


def test_a_session_runs_on_all_workers_from_one_of_them(hosts: TestBed, left: Left) -> None:
    # The notebook is on worker 1, which is h3, and has IPython's folder as any notebook has.
    mine = ("NBDIST_STATE=/dev/shm/state", "IPYTHONDIR=/dev/shm/ipython")
    done = hosts.exec(
        *(3, "env", f"PYTHONPATH={ROOT}", *mine, sys.executable),
        *("-c", SESSION, str(hosts.ssh_config)),
        timeout_s=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[(0, 'h2'), (1, 'h3'), (2, 'h1')]"
    # The folder where sessions are written down stays; it is empty.
    assert hosts.exec(3, "rmdir", "/dev/shm/state/sessions", "/dev/shm/state").returncode == 0
    assert hosts.exec(3, "rm", "-r", "/dev/shm/ipython").returncode == 0
    left.nothing()
