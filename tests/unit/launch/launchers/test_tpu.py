"""Pods that `gcloud` describes, with a stand-in for `gcloud` on the path; each fault is one clear error."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.launchers import tpu
from nbdist.launch.launchers.ssh import ssh_command, ssh_target
from nbdist.launch.launchers.tpu import find_pod, pod_hosts, ssh_options
from nbdist.launch.launchers.tpu_worker import TpuPod
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import choose_placement
from nbdist.machine import checkup
from tests.places import ROOT

TESTBED = ROOT / "tests" / "testbed"
ZONE = "us-central2-b"
NODE_ID = "1234567890123456789"
NODE = {
    "acceleratorConfig": {"topology": "2x2x2", "type": "V4"},
    "acceleratorType": "v4-16",
    "apiVersion": "V2",
    "cidrBlock": "10.130.0.0/20",
    "createTime": "2026-01-01T00:00:00Z",
    "health": "HEALTHY",
    "id": NODE_ID,
    "multisliceNode": False,
    "name": "projects/p-1/locations/us-central2-b/nodes/t1",
    "networkConfig": {
        "enableExternalIps": True,
        "network": "projects/p-1/global/networks/default",
    },
    "networkEndpoints": [
        {"ipAddress": "192.0.2.31", "port": 8470},
        {"ipAddress": "192.0.2.29", "port": 8470},
    ],
    "runtimeVersion": "tpu-ubuntu2204-base",
    "state": "READY",
}
"""As Google Cloud SDK 528.0.0 prints it; the addresses are those nobody has."""
NOT_FOUND = """\
ERROR: (gcloud.compute.tpus.tpu-vm.describe) NOT_FOUND: Resource 'projects/p-1/locations/us-central2-b/nodes/t1' was not found. This command is authenticated as me@example.org which is the active account specified by the [core/account] property
- '@type': type.googleapis.com/google.rpc.ResourceInfo
  resourceName: projects/p-1/locations/us-central2-b/nodes/t1
"""  # noqa: E501
NOT_LOGGED_IN = """\
ERROR: (gcloud.compute.tpus.tpu-vm.describe) You do not currently have an active account selected.
Please run:

  $ gcloud auth login

to obtain new credentials.
"""
NO_PROJECT = """\
ERROR: (gcloud.compute.tpus.tpu-vm.describe) Error parsing [tpu].
The [tpu] resource is not properly specified.
Failed to find attribute [project]. The attribute can be set in the following ways:
- provide the argument `tpu` on the command line with a fully specified name
- provide the argument `--project` on the command line
- set the property `core/project`
"""


@dataclass(frozen=True)
class StandIn:
    """The folder the stand-in answers from, and the environment that puts it on the path."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        path = f"{TESTBED}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder), "GCLOUD_STAND_IN": str(self.folder)}

    def knows(self, name: str = "t1", **changes: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps({**NODE, **changes}))

    def fails(self, said: str, name: str = "t1") -> None:
        (self.folder / f"{name}.err").write_text(said)

    def find(self, name: str = "t1", project: str | None = None) -> TpuPod:
        return find_pod(name, ZONE, project, self.environment)

    @property
    def calls(self) -> list[list[str]]:
        return [line.split("\t") for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address where something answers at the port of ssh."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(tpu, "SSH_PORT", server.getsockname()[1])
        yield "127.0.0.1"


def test_a_pod_is_found_by_name_and_zone(stand_in: StandIn) -> None:
    stand_in.knows()
    pod = stand_in.find()
    asked = ["compute", "tpus", "tpu-vm", "describe", "t1", "--zone", ZONE]
    assert stand_in.calls == [[*asked, "--format", "json", "--quiet"]]
    assert (pod.name, pod.notes) == ("t1", ())
    assert [(w.index, w.slice_index, w.address, w.host) for w in pod.workers] == [
        (0, 0, "192.0.2.31", "t1-w-0"),
        (1, 0, "192.0.2.29", "t1-w-1"),
    ]
    assert [(host.name, host.ssh) for host in pod_hosts(pod)] == [
        ("t1-w-0", ("-oHostName=192.0.2.31",)),
        ("t1-w-1", ("-oHostName=192.0.2.29",)),
    ]
    assert [host.processes for host in pod_hosts(pod)] == [1, 1]


def test_a_start_on_a_pod_has_its_workers_as_hosts(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.knows(health="UNHEALTHY_TENSORFLOW")
    for name, value in stand_in.environment.items():
        monkeypatch.setenv(name, value)
    asked = StartOptions(tpu="t1", zone=ZONE, min_hosts=1, tunnel=True)
    placed = choose_placement(asked)
    assert placed.launcher == "tpu" and placed.tunnel and placed.min_hosts == 1
    assert [host.name for host in placed.hosts] == ["t1-w-0", "t1-w-1"]
    assert "UNHEALTHY_TENSORFLOW" in placed.remarks[0] and placed.ssh_advice is not None
    with pytest.raises(OptionError, match="--min-hosts 3 with 2 hosts"):
        choose_placement(replace(asked, min_hosts=3))
    stand_in.knows(networkEndpoints=[{"ipAddress": "192.0.2.31"}, {"ipAddress": "127.0.0.9"}])
    with pytest.raises(OptionError, match=r"--tunnel: processes on this machine \(localhost\)"):
        choose_placement(asked)
    with pytest.raises(OptionError, match="--tpu reaches its hosts with ssh; leave --slurm"):
        choose_placement(replace(asked, slurm=True))


def test_the_project_is_handed_on(stand_in: StandIn) -> None:
    stand_in.knows()
    stand_in.find(project="p-1")
    assert stand_in.calls[0][4:9] == ["t1", "--zone", ZONE, "--project", "p-1"]


def test_a_worker_with_an_address_of_this_machine_is_this_machine(stand_in: StandIn) -> None:
    stand_in.knows(networkEndpoints=[{"ipAddress": "192.0.2.31"}, {"ipAddress": "127.0.0.9"}])
    pod = stand_in.find()
    assert [worker.local for worker in pod.workers] == [False, True]
    assert pod_hosts(pod)[1] == AskedHost(name="localhost", processes=1)


def outside_and(inside: str) -> list[dict[str, Any]]:
    return [
        {"ipAddress": inside, "accessConfig": {"externalIp": "198.51.100.3"}},
        {"ipAddress": "192.0.2.29", "accessConfig": {"externalIp": "198.51.100.4"}},
    ]


def test_external_addresses_are_for_machines_outside_the_pods_network(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpu, "PROBE_SECONDS", 0.1)
    stand_in.knows(networkEndpoints=outside_and("192.0.2.31"))
    pod = stand_in.find()
    assert [worker.ssh_address for worker in pod.workers] == ["198.51.100.3", "198.51.100.4"]
    assert pod.workers[0].address == "192.0.2.31"
    assert "192.0.2.31, port 22" in pod.notes[0]


def test_internal_addresses_are_used_where_ssh_answers_there(
    stand_in: StandIn, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "is_own", lambda address: False)
    stand_in.knows(networkEndpoints=outside_and(listener))
    pod = stand_in.find()
    assert [worker.ssh_address for worker in pod.workers] == [listener, "192.0.2.29"]
    assert pod.notes == ()


def test_slices_are_named_in_order_and_processes_count_through_them(stand_in: StandIn) -> None:
    of_both = {"queuedResource": "projects/p-1/locations/z/queuedResources/q1"}
    stand_in.knows("s-0", **of_both, multisliceNode=True)
    other = [{"ipAddress": "192.0.2.41"}, {"ipAddress": "192.0.2.42"}]
    stand_in.knows("s-1", **of_both, multisliceNode=True, networkEndpoints=other)
    pod = stand_in.find("s-0,s-1")
    assert pod.notes == ()
    assert [(w.slice_index, w.index, w.host) for w in pod.workers] == [
        (0, 0, "s-0-w-0"),
        (0, 1, "s-0-w-1"),
        (1, 0, "s-1-w-0"),
        (1, 1, "s-1-w-1"),
    ]


def test_one_slice_of_several_is_said_to_be_one(stand_in: StandIn) -> None:
    stand_in.knows(multisliceNode=True, queuedResource="projects/p-1/locations/z/q1")
    assert (
        "one slice of several (queued resource projects/p-1/locations/z/q1)"
        in (stand_in.find().notes[0])
    )


def test_bad_health_is_said_and_refuses_nothing(stand_in: StandIn) -> None:
    stand_in.knows(health="UNHEALTHY_MAINTENANCE", healthDescription="host 1 is repaired")
    assert stand_in.find().notes == (
        "TPU t1: its health is UNHEALTHY_MAINTENANCE (host 1 is repaired).",
    )


def test_gcloud_that_is_missing_is_named_with_what_else_works(stand_in: StandIn) -> None:
    environment = {**stand_in.environment, "PATH": str(stand_in.folder)}
    with pytest.raises(OptionError, match=r"gcloud is not on this machine's PATH.*--hosts"):
        find_pod("t1", ZONE, None, environment)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (NOT_FOUND, r"gcloud says: NOT_FOUND: Resource '.*/t1' was not found\..*\nTry in a"),
        (NOT_LOGGED_IN, r"You do not currently have an active account(?s:.*)gcloud auth login"),
        (NO_PROJECT, r"Failed to find attribute \[project\](?s:.*)- provide the argument `--proj"),
        ("", r"gcloud says: nothing, with exit code 1"),
    ],
)
def test_what_gcloud_says_is_in_the_error(stand_in: StandIn, said: str, words: str) -> None:
    stand_in.fails(said)
    with pytest.raises(LaunchError, match=words) as raised:
        stand_in.find()
    assert "@type" not in str(raised.value)
    assert f"gcloud compute tpus tpu-vm describe t1 --zone {ZONE}" in str(raised.value)


def test_gcloud_that_does_not_answer_is_given_up(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tpu, "GCLOUD_SECONDS", 0.2)
    (stand_in.folder / "t1.hang").touch()
    with pytest.raises(LaunchError, match=r"did not answer within.*tpu-vm describe t1"):
        stand_in.find()


def test_an_interrupt_ends_gcloud(stand_in: StandIn) -> None:
    for name in ("a", "b"):
        (stand_in.folder / f"{name}.hang").touch()
    before = set(psutil.Process().children())
    main = threading.main_thread()

    def interrupt() -> None:
        calls = stand_in.folder / "calls"
        while not calls.exists() or len(stand_in.calls) < 2:
            time.sleep(0.01)
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        stand_in.find("a,b")
    thread.join()
    assert set(psutil.Process().children()) <= before


def test_gcloud_that_cannot_run_is_an_error(stand_in: StandIn) -> None:
    program = stand_in.folder / "gcloud"
    program.write_text("#!/nowhere/interpreter\n")
    program.chmod(0o755)
    environment = {**stand_in.environment, "PATH": str(stand_in.folder)}
    with pytest.raises(LaunchError, match="gcloud cannot be run"):
        find_pod("t1", ZONE, None, environment)


@pytest.mark.parametrize("printed", ["", "[]", "Updates are available.", '{"state":'])
def test_an_answer_that_is_no_description_is_shown(stand_in: StandIn, printed: str) -> None:
    (stand_in.folder / "t1.json").write_text(printed)
    with pytest.raises(LaunchError, match="no description of a TPU: ") as raised:
        stand_in.find()
    assert (printed or "it is empty") in str(raised.value)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("CREATING", r"in state CREATING, and must be READY\. Wait until"),
        ("STOPPED", r"Start it: gcloud compute tpus tpu-vm start t1 --zone us-central2-b"),
        ("PREEMPTED", r"was preempted and cannot be started again"),
        ("TERMINATED", r"create it anew"),
    ],
)
def test_a_tpu_that_is_not_ready_is_refused(stand_in: StandIn, state: str, words: str) -> None:
    stand_in.knows(state=state)
    with pytest.raises(LaunchError, match=words):
        stand_in.find()


@pytest.mark.parametrize(
    "endpoints", [[], None, [{"port": 8470}], "10.0.0.1", [{"ipAddress": "10.0.0.1"}, None]]
)
def test_a_description_without_all_workers_is_refused(stand_in: StandIn, endpoints: Any) -> None:
    stand_in.knows(networkEndpoints=endpoints)
    with pytest.raises(LaunchError, match="without workers"):
        stand_in.find()


def test_tpus_of_different_requests_are_no_slices_of_one_pod(stand_in: StandIn) -> None:
    stand_in.knows("a", queuedResource="q1")
    stand_in.knows("b", queuedResource="q2")
    with pytest.raises(OptionError, match=r"not slices of one pod.*\(q1, q2\)"):
        stand_in.find("a,b")


def test_slices_have_the_same_number_of_workers(stand_in: StandIn) -> None:
    stand_in.knows("a")
    stand_in.knows("b", networkEndpoints=[{"ipAddress": "192.0.2.41"}])
    with pytest.raises(OptionError, match="have 1 and 2 workers"):
        stand_in.find("a,b")


@pytest.mark.parametrize("name", ["--format=yaml", "-t", "a b", "", "a,", "$(x)"])
def test_names_that_cannot_be_are_refused_before_gcloud_runs(stand_in: StandIn, name: str) -> None:
    with pytest.raises(OptionError, match="no such name can exist"):
        stand_in.find(name)
    assert not (stand_in.folder / "calls").exists()


def test_a_slice_is_named_once(stand_in: StandIn) -> None:
    with pytest.raises(OptionError, match="a is named more than once"):
        stand_in.find("a,a")


def write_keys(home: Path, *names: str) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/google_compute_engine").touch()
    lines = [f"{name} ssh-ed25519 AAAA" for name in names]
    (home / ".ssh/google_compute_known_hosts").write_text("\n".join(lines) + "\n")


def test_ssh_is_given_the_key_and_the_host_key_that_gcloud_keeps(stand_in: StandIn) -> None:
    stand_in.knows()
    ids = [f"tpu.{NODE_ID}-{worker}" for worker in ("0-old", "1-ab/+cd", "11-xx", "0-new")]
    write_keys(stand_in.folder, *ids, "compute.1")
    first, second = pod_hosts(stand_in.find())
    ssh = stand_in.folder / ".ssh"
    assert first.ssh == (
        "-oHostName=192.0.2.31",
        f'-oIdentityFile="{ssh}/google_compute_engine"',
        "-oIdentitiesOnly=yes",
        f"-oHostKeyAlias=tpu.{NODE_ID}-0-new",
        f'-oUserKnownHostsFile="{ssh}/google_compute_known_hosts"',
        "-oCheckHostIP=no",
    )
    assert f"-oHostKeyAlias=tpu.{NODE_ID}-1-ab/+cd" in second.ssh
    command = ssh_command(second, SshOptions(python="python"), ["true"])
    assert command[-2:] == ["t1-w-1", "true"]
    assert set(second.ssh) < set(command)
    assert ssh_target(second, SshOptions(python="python")) == ("192.0.2.29", 22)


def test_files_of_gcloud_that_are_not_there_are_not_given_to_ssh(tmp_path: Path) -> None:
    assert ssh_options(NODE_ID, 0, tmp_path) == ()
    write_keys(tmp_path, f"tpu.{NODE_ID}-1")
    assert len(ssh_options(NODE_ID, 0, tmp_path)) == 2
    assert len(ssh_options(NODE_ID, 1, tmp_path)) == 5
    assert len(ssh_options("", 1, tmp_path)) == 2


def test_the_advice_for_a_refused_ssh_names_the_tpu(stand_in: StandIn) -> None:
    stand_in.knows()
    advice = stand_in.find(project="p-1").ssh_advice
    assert advice is not None
    assert advice.startswith(
        f"gcloud compute tpus tpu-vm ssh t1 --zone {ZONE} --project p-1 --worker=all --command=true"
    )
