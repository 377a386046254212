"""Launch plans and what is refused before anything starts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import OptionError
from nbdist.launch.frameworks.jax import arguments, platform_of
from nbdist.launch.model.framework import Rendezvous, meet
from nbdist.launch.model.plan import Plan, plan_for
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import make_plan, proxy_warning
from nbdist.machine import checkup
from tests.builders.places import places_of


def plan_of(**changes: object) -> Plan:
    processes = changes.pop("processes", 4)
    given = {
        "hosts": [("h1", processes)],
        "devices_per_process": None,
        "platform": "gpu",
        "accelerators": 8,
        **changes,
    }
    return plan_for(**given)  # type: ignore[arg-type]


def test_process_ids_are_dense_and_follow_the_slots() -> None:
    plan = plan_of(platform="cpu", devices_per_process=2)
    assert [(p.process_id, p.slot, p.devices) for p in plan.processes] == [
        (0, 0, 2),
        (1, 1, 2),
        (2, 2, 2),
        (3, 3, 2),
    ]


def test_gpus_are_divided_among_the_processes() -> None:
    assert [p.local_device_ids for p in plan_of().processes] == [(0, 1), (2, 3), (4, 5), (6, 7)]


FLAGS = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"processes": 9}, "9 processes × 1 gpu = 9, but this machine has 8"),
        ({"devices_per_process": 3}, "4 processes × 3 gpu = 12, but this machine has 8"),
        ({"processes": 2, "local_device_ids": [(0, 1), (1, 2)]}, "device 1 for more than one"),
        ({"partition_index": [0, 1]}, "2 indices for 4 processes"),
        ({"platform": "tpu", "processes": 2}, "-n 2 on one TPU host"),
        ({"processes": 0}, "-n 0: "),
        ({"processes": -3}, "-n -3: "),
        ({"hosts": []}, "-n 0: "),
        ({"platform": "cpu", "devices_per_process": 4096}, "2048 cpu"),
    ],
)
def test_devices_are_never_shared_in_silence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        plan_of(**changes)


def test_two_ways_to_count_cpu_devices_are_refused() -> None:
    asked = StartOptions(devices_per_process=2, platform="cpu", environment=FLAGS)
    with pytest.raises(OptionError, match="--devices-per-process and xla_force_host"):
        make_plan(asked)


def test_coordinator_port_in_use_is_refused_and_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        asked = StartOptions(processes=2, platform="cpu", coordinator=f"127.0.0.1:{port}")
        with pytest.raises(OptionError, match=f"port {port} cannot be used"):
            make_plan(asked)


def test_coordinator_without_a_port_is_at_one_that_is_reserved() -> None:
    plan = make_plan(StartOptions(processes=2, platform="cpu", coordinator="127.0.0.1"))
    assert meet(plan, places_of(plan)).coordinator == "127.0.0.1:20000"
    with pytest.raises(OptionError, match=r"^--coordinator 192\.0\.2\.7: not an address of this"):
        make_plan(StartOptions(processes=2, platform="cpu", coordinator="192.0.2.7"))


def test_every_argument_of_initialize_can_be_given_and_detection_is_off() -> None:
    plan = make_plan(
        StartOptions(
            processes=2,
            platform="cpu",
            local_device_ids=[(0,), (1,)],
            partition_index=[0, 1],
            initialization_timeout_s=30,
            heartbeat_timeout_s=20,
            shutdown_timeout_s=10,
            coordinator_bind_address="127.0.0.1:1234",
        )
    )
    assert arguments(
        plan, plan.processes[1], Rendezvous(coordinator="127.0.0.1:999", tasks={})
    ) == {
        "coordinator_address": "127.0.0.1:999",
        "num_processes": 2,
        "process_id": 1,
        "cluster_detection_method": "deactivate",
        "coordinator_bind_address": "127.0.0.1:1234",
        "local_device_ids": [1],
        "partition_index": 1,
        "initialization_timeout": 30,
        "heartbeat_timeout_seconds": 20,
        "shutdown_timeout_seconds": 10,
    }


def test_gpus_are_counted_without_a_framework(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "proc/driver/nvidia/gpus" / f"0000:0{number}:00.0").mkdir(parents=True)
    assert checkup.accelerators(tmp_path) == {"gpus": 3, "tpus": 0}


def test_jax_platforms_of_the_environment_decides() -> None:
    assert platform_of({"JAX_PLATFORMS": "cuda,cpu"}) == "gpu"
    assert platform_of({"JAX_PLATFORMS": "tpu"}) == "tpu"


@pytest.mark.parametrize("framework", ["jax", "keras"])
@pytest.mark.parametrize(
    ("kernel", "sent"),
    [(None, "cpu"), ("", "cpu"), ("cpu", "cpu"), ("cpu,cuda", "cpu,cuda"), ("cuda,cpu", "cpu")],
)
def test_jax_computes_on_the_platform_that_is_asked_for_whatever_the_kernel_has_set(
    monkeypatch: pytest.MonkeyPatch, framework: str, kernel: str | None, sent: str
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if kernel is not None:
        monkeypatch.setenv("JAX_PLATFORMS", kernel)
    made = make_plan(StartOptions(processes=1, platform="cpu", framework=framework))
    assert made.environment["JAX_PLATFORMS"] == sent
    given = {"JAX_PLATFORMS": "cpu,tpu"}
    made = make_plan(
        StartOptions(processes=1, platform="cpu", framework=framework, environment=given)
    )
    assert made.environment["JAX_PLATFORMS"] == "cpu,tpu"


def test_jax_beside_tensorflow_has_the_platform_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert (
        "JAX_PLATFORMS"
        not in make_plan(StartOptions(processes=1, framework="tensorflow")).environment
    )
    monkeypatch.delenv("JAX_PLATFORMS")
    found = make_plan(StartOptions(processes=1, platform="cpu", framework="tensorflow"))
    assert found.environment["JAX_PLATFORMS"] == "cpu"


def test_proxy_variables_are_named_with_the_host_and_what_to_do() -> None:
    warning = proxy_warning(
        {"HTTP_PROXY": "http://proxy:3128", "https_proxy": "", "PATH": "x"}, "h1"
    )
    assert warning is not None
    assert "HTTP_PROXY" in warning and "host h1" in warning
    assert "--env HTTP_PROXY= leaves it out" in warning
    assert proxy_warning({"no_proxy": "localhost", "http_proxy": ""}, "h1") is None
