"""A worker of a TPU pod: what it is told by the metadata server or by Kubernetes, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.launchers.tpu import find_pod, pod_hosts
from nbdist.launch.launchers.tpu_worker import (
    LIST_FILE,
    NoWorker,
    Worker,
    endpoints,
    read_worker,
)
from nbdist.launch.model.hosts import AskedHost
from nbdist.machine import checkup
from tests.builders.pods import (
    GCE,
    MULTISLICE,
    TPU_ENV,
    metadata_server,
)

SILENT = {"GCE_METADATA_IP": "127.0.0.1:9"}
"""Nobody listens on the port for discarding."""


def worker_of(environment: dict[str, str]) -> Worker:
    found = read_worker(environment)
    assert isinstance(found, Worker)
    return found


def test_a_worker_finds_its_pod_through_the_metadata_server() -> None:
    with metadata_server(GCE) as server:
        pod = find_pod(None, None, None, {"GCE_METADATA_IP": server})
    assert pod.name == "pod-1"
    assert [(w.index, w.address, w.host, w.local) for w in pod.workers] == [
        (0, "10.130.0.31", "pod-1-w-0", False),
        (1, "10.130.0.29", "pod-1-w-1", True),
    ]
    assert [worker.environment for worker in pod.workers] == [{}, {}]


def test_the_hosts_of_a_pod_follow_its_own_numbering_with_one_process_each() -> None:
    with metadata_server(GCE) as server:
        pod = find_pod(None, None, None, {"GCE_METADATA_IP": server})
    assert pod_hosts(pod) == (
        AskedHost(name="pod-1-w-0", processes=1, ssh=("-oHostName=10.130.0.31",)),
        AskedHost(name="localhost", processes=1),
    )


def test_a_worker_that_is_reported_by_name_is_reached_by_that_name() -> None:
    attributes = {**GCE, "worker-network-endpoints": "t1v-n-w-0,t1v-n-w-1"}
    with metadata_server(attributes) as server:
        pod = find_pod(None, None, None, {"GCE_METADATA_IP": server})
    assert pod_hosts(pod)[0] == AskedHost(name="t1v-n-w-0", processes=1)


def test_no_proxy_is_asked_for_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with metadata_server(GCE) as server:
        assert isinstance(read_worker({"GCE_METADATA_IP": server}), Worker)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1,10.0.0.2", (("", "10.0.0.1"), ("", "10.0.0.2"))),
        ("t1v-n-1-w-0", (("", "t1v-n-1-w-0"),)),
        ("w0:8470:10.0.0.1,w1:8470:10.0.0.2", (("w0", "10.0.0.1"), ("w1", "10.0.0.2"))),
        ("unknown:unknown:10.0.0.1", (("", "10.0.0.1"),)),
    ],
)
def test_endpoints_are_triples_or_plain_addresses(
    text: str, expected: tuple[tuple[str, str], ...]
) -> None:
    assert endpoints(text) == expected


@pytest.mark.parametrize("text", ["10.0.0.1:8470", "a:b:c:d", "", "10.0.0.1,"])
def test_endpoints_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(LaunchError, match=r"NAME:ID:ADDRESS and ADDRESS.*--hosts"):
        endpoints(text)


def test_process_ids_count_slice_by_slice() -> None:
    with metadata_server(MULTISLICE) as server:
        worker = worker_of({"GCE_METADATA_IP": server})
    assert (worker.slices, worker.slice_index, worker.index) == (2, 1, 1)


def test_the_environment_says_the_slice_before_the_metadata_server() -> None:
    with metadata_server(MULTISLICE) as server:
        worker = worker_of({"GCE_METADATA_IP": server, "MEGASCALE_SLICE_ID": "0"})
    assert (worker.slice_index, worker.index) == (0, 1)


def test_a_worker_of_several_slices_is_refused_with_what_names_them_all() -> None:
    with (
        metadata_server(MULTISLICE) as server,
        pytest.raises(OptionError, match=r"worker 1 of slice 1 of 2") as raised,
    ):
        find_pod(None, None, None, {"GCE_METADATA_IP": server})
    assert "10.130.0.31, 10.130.0.29" in str(raised.value)
    assert "--tpu SLICE0,SLICE1 --zone us-central2-b; this one is pod-1." in str(raised.value)


@pytest.mark.parametrize("name", ["TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"])
def test_a_worker_on_kubernetes_finds_its_pod_in_its_environment(name: str) -> None:
    hosts = "job-0.svc:8476,job-1.svc:8476" if "ADDRESSES" in name else "job-0.svc,job-1.svc"
    environment = {**SILENT, name: hosts, "TPU_WORKER_ID": "0", "TPU_ACCELERATOR_TYPE": "v5p-8"}
    pod = find_pod(None, None, None, environment)
    assert [(w.address, w.host, w.local) for w in pod.workers] == [
        ("job-0.svc", "job-0.svc", True),
        ("job-1.svc", "job-1.svc", False),
    ]


def test_addresses_in_a_file_decide_before_those_in_variables(tmp_path: Path) -> None:
    file = tmp_path / "addresses"
    file.write_text("job-0.svc:8476,job-1.svc:8476\n")
    environment = {
        **SILENT,
        LIST_FILE: str(file),
        "TPU_WORKER_HOSTNAMES": "x",
        "TPU_WORKER_ID": "1",
    }
    pod = find_pod(None, None, None, environment)
    assert [(w.address, w.local) for w in pod.workers] == [
        ("job-0.svc", False),
        ("job-1.svc", True),
    ]


def test_a_file_of_addresses_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "addresses"
    environment = {**SILENT, LIST_FILE: str(file), "TPU_WORKER_ID": "0"}
    with pytest.raises(LaunchError, match=rf"{LIST_FILE} names the file {file}, which cannot be"):
        find_pod(None, None, None, environment)
    file.write_text("\n")
    with pytest.raises(
        LaunchError, match=rf"the file {file}, which holds '': an address is missing"
    ):
        find_pod(None, None, None, environment)


def test_workers_on_kubernetes_get_the_variables_of_this_one_and_their_own_number() -> None:
    shared = {"TPU_WORKER_HOSTNAMES": "a,b", "TPU_TOPOLOGY": "2x2x2", "MEGASCALE_NUM_SLICES": "1"}
    environment = {**SILENT, **shared, "TPU_WORKER_ID": "1", "PATH": "/bin"}
    pod = find_pod(None, None, None, environment)
    assert [worker.environment for worker in pod.workers] == [
        {**shared, "TPU_WORKER_ID": "0"},
        {**shared, "TPU_WORKER_ID": "1"},
    ]
    assert pod_hosts(pod)[0].environment == {**shared, "TPU_WORKER_ID": "0"}


def test_several_slices_on_kubernetes_are_named_with_hosts() -> None:
    environment = {
        "TPU_WORKER_HOSTNAMES": "s1-0,s1-1",
        "TPU_WORKER_ID": "1",
        "TPU_SKIP_MDS_QUERY": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "s0-0",
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
    }
    worker = worker_of(environment)
    assert (worker.slices, worker.slice_index, worker.index) == (2, 1, 1)
    with pytest.raises(OptionError, match=r"slice 1 of 2.*Kubernetes \(GKE\) names.*--hosts"):
        find_pod(None, None, None, environment)


def test_tpu_without_a_name_is_refused_where_nobody_tells_of_a_pod() -> None:
    with pytest.raises(OptionError, match=r"no worker of a TPU pod.*127\.0\.0\.1:9") as raised:
        find_pod(None, None, None, SILENT)
    assert "--tpu NAME --zone ZONE" in str(raised.value)


@pytest.mark.parametrize(
    ("flavor", "status", "words"),
    [
        ("Google", 404, "has no agent-worker-number for this machine"),
        ("", 404, "not as Google's metadata server does"),
        ("", 401, "not as Google's metadata server does"),
        ("Google", 503, "answers 503"),
    ],
)
def test_a_machine_that_is_no_worker_says_why(flavor: str, status: int, words: str) -> None:
    with (
        metadata_server({}, flavor=flavor, status=status) as server,
        pytest.raises(OptionError, match=words),
    ):
        find_pod(None, None, None, {"GCE_METADATA_IP": server})


def test_a_server_that_is_not_googles_is_not_believed() -> None:
    with metadata_server(GCE, flavor="") as server:
        assert isinstance(read_worker({"GCE_METADATA_IP": server}), NoWorker)


def test_the_metadata_server_is_not_asked_where_a_variable_says_so() -> None:
    with (
        metadata_server(GCE) as server,
        pytest.raises(OptionError, match="TPU_SKIP_MDS_QUERY is set"),
    ):
        find_pod(None, None, None, {"GCE_METADATA_IP": server, "TPU_SKIP_MDS_QUERY": "1"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent-worker-number": "5"}, r"agent-worker-number is 5, but .* names 2 workers"),
        ({"agent-worker-number": "one"}, r"agent-worker-number is 'one', which is no number"),
        ({"worker-network-endpoints": "10.0.0.1,10.0.0.1"}, r"names 10\.0\.0\.1 more than once"),
        ({"worker-network-endpoints": ""}, r"this is worker 1, but names no workers"),
        ({"tpu-env": "MEGASCALE_NUM_SLICES: 'two'"}, r"MEGASCALE_NUM_SLICES is 'two'"),
        ({"tpu-env": "MEGASCALE_SLICE_ID: '2'"}, r"MEGASCALE_SLICE_ID is 2, but .* is 1"),
    ],
)
def test_a_numbering_that_contradicts_itself_is_refused(
    changes: dict[str, str], words: str
) -> None:
    with (
        metadata_server({**GCE, **changes}) as server,
        pytest.raises(LaunchError, match=words),
    ):
        find_pod(None, None, None, {"GCE_METADATA_IP": server})


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (
            {"TPU_WORKER_HOSTNAMES": "a,b"},
            r"TPU_WORKER_HOSTNAMES is set \(a,b\), but TPU_WORKER_ID",
        ),
        ({"TPU_WORKER_HOSTNAMES": "a,,b", "TPU_WORKER_ID": "0"}, "an address is missing"),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "2"}, "TPU_WORKER_ID is 2, but"),
        ({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": "x"}, "TPU_WORKER_ID is 'x'"),
    ],
)
def test_variables_of_kubernetes_that_contradict_each_other_are_refused(
    environment: dict[str, str], words: str
) -> None:
    with pytest.raises(LaunchError, match=words):
        find_pod(None, None, None, {**SILENT, **environment})


@pytest.mark.parametrize(("zone", "project"), [("us-central2-b", None), (None, "p-1")])
def test_zone_and_project_need_a_name(zone: str | None, project: str | None) -> None:
    with pytest.raises(OptionError, match=r"without a name: write --tpu NAME --zone ZONE"):
        find_pod(None, zone, project, {})


def test_a_name_needs_a_zone() -> None:
    with pytest.raises(OptionError, match=r"--tpu t1 without --zone.*tpu-vm list --zone=-"):
        find_pod("t1", None, None, {})


def test_a_pod_without_a_name_has_hosts_with_names() -> None:
    attributes = {**GCE, "tpu-env": TPU_ENV.replace("NODE_ID", "OTHER")}
    with metadata_server(attributes) as server:
        pod = find_pod(None, None, None, {"GCE_METADATA_IP": server})
    assert [worker.host for worker in pod.workers] == ["this-pod-w-0", "this-pod-w-1"]


def test_own_addresses_are_not_taken_for_others() -> None:
    assert checkup.is_own("127.0.0.1")
    for other in ("192.0.2.1", "localhost", "", "no address"):
        assert not checkup.is_own(other)
