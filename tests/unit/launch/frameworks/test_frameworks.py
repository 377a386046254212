"""Plans for Keras and TensorFlow: what each process is told, and what is refused before anything starts."""

from __future__ import annotations

import json
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import nbdist
from nbdist.contract.calls.engine import Initialized
from nbdist.errors import LaunchError, OptionError
from nbdist.launch.frameworks import tensorflow as tensorflow_plan
from nbdist.launch.model import framework
from nbdist.launch.model.framework import Rendezvous, framework_named, meet
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import make_plan
from nbdist.launch.sessions.recorded import without_values
from nbdist.launch.start import initialize as join
from nbdist.machine import checkup, ports
from nbdist.machine.ports import free_ports
from nbdist.magics import options
from tests.builders.places import places_of


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERAS_BACKEND", "TF_CONFIG", "XLA_FLAGS", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)


def plan(framework: str, processes: int = 2, **options: Any) -> Plan:
    return make_plan(
        StartOptions(processes=processes, platform="cpu", framework=framework, **options)
    )


def environments(found: Plan) -> list[dict[str, str]]:
    module, rendezvous = framework_named(found.framework), meet(found, places_of(found))
    return [module.environment(found, process, rendezvous) for process in found.processes]


def test_each_keras_process_gets_addresses_count_and_its_own_id() -> None:
    found = plan("keras")
    first, second = environments(found)
    assert found.environment["KERAS_BACKEND"] == "jax"
    assert first["KERAS_DISTRIBUTION_JOB_ADDRESSES"].startswith("127.0.0.1:")
    assert first["JAX_COORDINATOR_BIND_ADDRESS"] == first["KERAS_DISTRIBUTION_JOB_ADDRESSES"]
    assert (first["KERAS_DISTRIBUTION_PROCESS_ID"], second["KERAS_DISTRIBUTION_PROCESS_ID"]) == (
        "0",
        "1",
    )
    assert second["KERAS_DISTRIBUTION_NUM_PROCESSES"] == "2"


def test_a_list_of_all_jobs_reaches_keras_whole_and_its_first_is_the_coordinator() -> None:
    found = plan("keras", job_addresses="127.0.0.1,h2:700")
    rendezvous = meet(found, places_of(found))
    (stage,) = framework_named("keras").stages(found, found.processes[1], rendezvous)
    first, second = stage.arguments.job_addresses.split(",")
    assert second == "h2:700"
    assert first == rendezvous.coordinator == stage.jax["coordinator_bind_address"]
    assert stage.arguments.process_id == 1


@pytest.mark.parametrize("framework", ["jax", "keras"])
def test_flags_that_count_devices_do_so_for_a_kernel_that_does_not_know_their_values(
    framework: str,
) -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    found = without_values(plan(framework, environment=flags))
    assert "XLA_FLAGS" not in found.environment
    first, *_ = framework_named(framework).stages(
        found, found.processes[0], meet(found, places_of(found))
    )
    assert first.devices is None  # JAX would go by its configuration, and the others have 4


def test_each_tensorflow_process_gets_the_cluster_and_its_own_task() -> None:
    found = plan("tensorflow", evaluators=1)
    configs = [json.loads(e["TF_CONFIG"]) for e in environments(found)]
    assert [c["task"] for c in configs] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
        {"type": "evaluator", "index": 0},
    ]
    workers, evaluators = configs[0]["cluster"]["worker"], configs[0]["cluster"]["evaluator"]
    assert all(c["cluster"] == configs[0]["cluster"] for c in configs)
    assert len({*workers, *evaluators}) == 3


def test_the_plan_keeps_role_and_task_apart_from_the_process_id() -> None:
    found = plan("tensorflow", evaluators=2)
    assert [(p.process_id, p.role, p.task_index) for p in found.processes] == [
        (0, "worker", 0),
        (1, "worker", 1),
        (2, "evaluator", 0),
        (3, "evaluator", 1),
    ]
    assert [framework.role_name(found, p) for p in found.processes] == [
        "worker 0, chief",
        "worker 1",
        "evaluator 0",
        "evaluator 1",
    ]
    assert framework.ids_by_role(found) == {"worker": (0, 1), "chief": (0,), "evaluator": (2, 3)}


def test_one_tensorflow_process_alone_gets_no_cluster() -> None:
    assert environments(plan("tensorflow", 1, devices_per_process=2)) == [{}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"framework": "torch"}, "--framework torch: known are jax, keras, tensorflow"),
        ({"framework": "keras", "backend": "mxnet"}, "--backend mxnet: known are jax"),
        ({"framework": "jax", "backend": "jax"}, "--backend jax with --framework jax"),
        ({"framework": "jax", "evaluators": 1}, "only TensorFlow has evaluators"),
        ({"framework": "keras", "evaluators": 1}, "only TensorFlow has evaluators"),
        ({"framework": "tensorflow", "evaluators": -1}, "must be 0 or more"),
        ({"framework": "jax", "job_addresses": "h:1"}, "this is for --framework keras"),
        (
            {"framework": "keras", "processes": 3, "job_addresses": "127.0.0.1,h2:1"},
            "2 addresses for 3 processes",
        ),
        (
            {"framework": "keras", "job_addresses": "127.0.0.1", "coordinator": "127.0.0.1"},
            "give one of them",
        ),
        ({"framework": "tensorflow", "coordinator": "127.0.0.1"}, "give one of them"),
        ({"framework": "tensorflow", "devices_per_process": 2}, "uses one device of each worker"),
        (
            {"framework": "tensorflow", "local_device_ids": [[0], [1, 2]]},
            "the workers 1, 2 devices",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_allowed(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        make_plan(StartOptions(**{"processes": 2, "platform": "cpu", **options}))


def test_an_address_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OptionError, match=f"--job-addresses {address}: port"):
            plan("keras", job_addresses=address)


def test_keras_variables_that_agree_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "2")
    assert plan("keras").backend == "torch"
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", "127.0.0.1")
    first, _ = environments(plan("keras"))
    assert first["KERAS_DISTRIBUTION_JOB_ADDRESSES"] == "127.0.0.1:20000"


@pytest.mark.parametrize(
    ("name", "value", "options", "both"),
    [
        ("KERAS_BACKEND", "torch", {"backend": "jax"}, "--backend jax, but KERAS_BACKEND=torch"),
        (
            "KERAS_DISTRIBUTION_NUM_PROCESSES",
            "3",
            {},
            "KERAS_DISTRIBUTION_NUM_PROCESSES=3 is set, but 2 processes",
        ),
        ("KERAS_DISTRIBUTION_PROCESS_ID", "1", {}, "KERAS_DISTRIBUTION_PROCESS_ID=1 is set"),
        (
            "KERAS_DISTRIBUTION_JOB_ADDRESSES",
            "127.0.0.2",
            {"job_addresses": "127.0.0.1"},
            "--job-addresses 127.0.0.1, but KERAS_DISTRIBUTION_JOB_ADDRESSES=127.0.0.2",
        ),
    ],
)
def test_keras_variables_that_disagree_are_refused_with_both_values(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, options: dict[str, Any], both: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=both):
        plan("keras", **options)


def test_a_tf_config_that_agrees_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"worker": ["127.0.0.1:7001", "127.0.0.1:7002"], "evaluator": ["127.0.0.1:7003"]}
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    assert json.loads(environments(plan("tensorflow", evaluators=1))[1]["TF_CONFIG"]) == {
        "cluster": cluster,
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ('{"cluster": {"worker": ["a:1"]}}', "for 1 worker, but 2 workers are asked for"),
        ('{"cluster": 3}', "TF_CONFIG is set but cannot be read"),
        ("nonsense", "TF_CONFIG is set but cannot be read"),
        (
            '{"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}}',
            "for 2 workers and 1 ps, but 2 workers",
        ),
    ],
)
def test_a_tf_config_that_disagrees_is_refused(
    monkeypatch: pytest.MonkeyPatch, config: str, text: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(OptionError, match=text):
        plan("tensorflow")


def test_another_keras_back_end_is_refused_with_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(OptionError, match="KERAS_BACKEND=jax is set"):
        plan("tensorflow")


def test_t3_workers_with_different_numbers_of_devices_are_refused_with_the_counts() -> None:
    found = plan("tensorflow")
    with pytest.raises(LaunchError, match=r"process 0 .* has 1 device, process 1 .* has 2 devices"):
        tensorflow_plan.FRAMEWORK.check(found, {0: Initialized(local=1), 1: Initialized(local=2)})
    tensorflow_plan.FRAMEWORK.check(found, {0: Initialized(local=2), 1: Initialized(local=2)})


def test_a_tpu_is_refused_with_tensorflow() -> None:
    with pytest.raises(OptionError, match="use --framework keras or jax"):
        make_plan(StartOptions(processes=1, platform="tpu", framework="tensorflow"))


@pytest.mark.parametrize(("gpus", "platform"), [(0, "cpu"), (1, "gpu")])
def test_tensorflow_takes_gpus_where_there_are_any(
    monkeypatch: pytest.MonkeyPatch, gpus: int, platform: str
) -> None:
    monkeypatch.setattr(checkup, "accelerators", lambda: {"gpus": gpus, "tpus": 0})
    assert tensorflow_plan.FRAMEWORK.platform({}) == platform


def test_ports_are_free_and_none_that_the_system_gives_to_whoever_asks() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.socket() as given:
        given.bind(("127.0.0.1", 0))
        assert all(port < given.getsockname()[1] for port in ports)
    with socket.socket() as mine:
        mine.bind(("127.0.0.1", ports[0]))


def test_a_port_in_use_on_any_address_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        (free,) = free_ports(1)
        tried = iter([port, port, free])
        monkeypatch.setattr(ports, "_RANDOM", SimpleNamespace(choice=lambda _: next(tried)))
        assert free_ports(1) == [free]


def test_the_keras_that_tensorflow_s_users_import_is_imported_before_the_fork() -> None:
    found = plan("tensorflow")
    assert framework_named("tensorflow").preload(found) == ["tensorflow", "keras"]
    legacy = plan("tensorflow", environment={"TF_USE_LEGACY_KERAS": "1"})
    assert framework_named("tensorflow").preload(legacy) == ["tensorflow", "tf_keras"]


def test_others_are_asked_once_the_coordinator_listens_and_in_any_case_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (port,) = free_ports(1)
    found = Rendezvous(coordinator=f"127.0.0.1:{port}", tasks={})
    monkeypatch.setattr(join, "LISTENS_SECONDS", 0.05)
    join.wait_for_coordinator(found)  # nobody comes: it goes on all the same
    monkeypatch.setattr(join, "LISTENS_SECONDS", 60.0)
    with socket.socket() as coordinator:
        coordinator.bind(("127.0.0.1", port))
        threading.Timer(0.1, coordinator.listen).start()
        join.wait_for_coordinator(found)
        coordinator.settimeout(5)
        coordinator.accept()[0].close()


def test_options_beside_restart_are_refused_since_the_plan_stays() -> None:
    parse = options.parser("dist_init").parse
    options.refuse_beside_restart(parse("--restart"))
    with pytest.raises(OptionError, match="--devices-per-process cannot change it"):
        options.refuse_beside_restart(parse("--restart --devices-per-process 2"))


def test_the_helpers_are_there_under_the_package_s_name() -> None:
    assert nbdist.keras.checkpoint_dir
    assert nbdist.tensorflow.follow_checkpoints
