"""TPU pods on test hosts: the metadata server, gcloud's files for ssh and the chips are stand-ins.

JAX's own bare `initialize` forms the cluster that is compared with; nothing here has seen a TPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.launch.ssh import SshOptions, ssh_command
from nbdist.launch.tpu.discover import find_pod
from nbdist.launch.tpu.pod import pod_hosts
from tests.testbed.fixtures import need
from tests.testbed.hosts import ENVIRONMENT, HERE, ROOT, HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.testbed.tpu import VARIABLES, give_chips, pod_metadata

ORDER = ("h2", "h3", "h1")
"""The pod's own numbering, which is not that of the names."""
NODE_ID = "1234567890123456789"

LOOK = """
import json, os
import jax
from nbdist.launch.detect import detected
from nbdist.launch.tpu.discover import find_pod
from nbdist.launch.tpu.pod import pod_hosts

pod = find_pod(None, None, None, os.environ)
found = detected(os.environ)
jax.distributed.initialize(initialization_timeout=60)
print(json.dumps({
    "pod": [pod.name, pod.accelerator_type, pod.coordinator_host],
    "hosts": [host.name for host in pod_hosts(pod)],
    "detected": [found.method, found.process_id, found.processes, found.coordinator],
    "jax": [jax.process_index(), jax.process_count()],
}))
"""


@pytest.fixture(scope="module")
def pod() -> Iterator[TestBed]:
    """Three hosts that are the workers of one pod."""
    need(why_no_hosts())
    options = {
        i: HostOptions(metadata=pod_metadata(ORDER, ORDER.index(f"h{i}"))) for i in (1, 2, 3)
    }
    with TestBed(3, options=options) as bed:
        for i in (1, 2, 3):
            give_chips(bed, i)
        yield bed


def test_each_worker_finds_the_pod_that_jax_forms_by_itself(pod: TestBed) -> None:
    variables = [f"{name}={value}" for name, value in {**VARIABLES, "PYTHONPATH": ROOT}.items()]
    running = [
        subprocess.Popen(
            pod.command(i, "env", *variables, sys.executable, "-c", LOOK),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        for i in (1, 2, 3)
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    answers: list[dict[str, Any]] = [json.loads(each) for each in said]
    for name, answer in zip(pod.names, answers, strict=True):
        own = ORDER.index(name)
        assert answer["jax"] == [own, 3]
        assert answer["detected"] == ["gcetpu", own, 3, "h2:8482"]
        assert answer["pod"] == ["pod-1", "v4-24", "h2"]
        assert answer["hosts"] == ["localhost" if each == name else each for each in ORDER]


def test_ssh_reaches_the_workers_that_gcloud_names_with_gclouds_keys_alone(
    pod: TestBed, tmp_path: Path
) -> None:
    inside = [pod.address(int(name[1:])) for name in ORDER]
    node = {
        "id": NODE_ID,
        "state": "READY",
        "acceleratorType": "v4-24",
        "networkEndpoints": [{"ipAddress": address, "port": 8470} for address in inside],
    }
    (tmp_path / "t1.json").write_text(json.dumps(node))
    (tmp_path / ".ssh").mkdir()
    key = tmp_path / ".ssh/google_compute_engine"
    key.write_bytes((pod.folder / "id").read_bytes())
    key.chmod(0o600)
    lines = []
    for index, name in enumerate(ORDER):
        kind, host_key, *_ = (pod.folder / name / "hostkey.pub").read_text().split()
        lines.append(f"tpu.{NODE_ID}-{index}-{host_key[-6:].lower()} {kind} {host_key}\n")
    (tmp_path / ".ssh/google_compute_known_hosts").write_text("".join(lines))
    environment = {
        **ENVIRONMENT,
        "PATH": f"{HERE}:{ENVIRONMENT['PATH']}",
        "HOME": str(tmp_path),
        "GCLOUD_STAND_IN": str(tmp_path),
    }
    found = find_pod("t1", "us-central2-b", None, environment)
    # An empty configuration: neither the machine's nor the bed's.
    options = SshOptions(python=sys.executable, config="/dev/null")
    names = [
        subprocess.run(
            ssh_command(host, options, ["hostname"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for host in pod_hosts(found)
    ]
    assert [(done.stdout.strip(), done.stderr) for done in names] == [(n, "") for n in ORDER]
