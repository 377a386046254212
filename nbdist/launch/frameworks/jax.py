"""JAX: `jax.distributed.initialize` on each process, with all arguments given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbdist.agent.coordination import HEARTBEAT_SECONDS
from nbdist.contract.calls.engine import Described, Initialized, JaxStage
from nbdist.errors import LaunchError
from nbdist.launch.model.framework import Answers, Asked, Chosen, FrameworkLaunch, Rendezvous
from nbdist.launch.model.plan import Plan, PlannedProcess, Platform
from nbdist.machine import checkup
from nbdist.notation import count_text
from nbdist.spelling import option

PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
UNUSED = "127.0.0.1:0"
MIB = 1 << 20
NEEDED = ("start", "arrays", "observe", "objects", "resized", "repair.repair")
"""Modules of `nbdist.engine.frameworks.jax` for the start, the first report and a repair."""


class JaxLaunch(FrameworkLaunch):
    """JAX as the framework of a session.

    `memory_bytes` were measured with 2 processes on CPU, jax 0.10.2: an agent 168 MiB, processes with their
    nannies 65 MiB of their own after a first computation; rounded up.
    """

    name = "jax"
    title = "JAX"
    options = frozenset({"coordinator"})
    joins_a_service = True
    counts_nan = True
    stops_at_steps = True
    recovery = "in place"
    compared: tuple[str, ...] = ("jax", "jaxlib")
    memory_bytes = (200 * MIB, 100 * MIB)
    requirement = "jax"

    def platform(self, environment: Mapping[str, str]) -> Platform:
        """Return the platform that JAX chooses: a TPU, else a GPU, else CPU."""
        return platform_of(environment)

    def choose(self, asked: Asked) -> Chosen:
        """Return the platform variable, even if the kernel's environment names another platform."""
        return Chosen(environment=platform_variable(asked))

    def preload(self, plan: Plan) -> list[str]:
        """Return JAX and modules that otherwise each process would import separately while all others wait."""
        return ["jax", *(f"nbdist.engine.frameworks.jax.{name}" for name in NEEDED)]

    def stages(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Sequence[Any]:
        """Return one stage: join the cluster."""
        return [stage(plan, process, rendezvous)]

    def always(self, platform: Platform) -> dict[str, str]:
        """Return variables that hide other devices, and keep processes alive when another's heartbeat ends."""
        return {"JAX_PLATFORMS": PLATFORMS[platform], "JAX_ENABLE_RECOVERABILITY": "true"}

    def rejoin(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, Any]:
        """Return the arguments as at the start, with the new service."""
        return arguments(plan, process, rendezvous)

    def check(self, plan: Plan, answers: Answers) -> None:
        """Refuse processes whose numbers from libtpu differ from the plan's; JAX has compared everything else.

        Raises:
          LaunchError: The numbers are not those of the plan.
        """
        other = {p: a.process_id for p, a in answers.items() if a.process_id not in (p, None)}
        if other:
            listed = ", ".join(
                f"process {p} (host {plan.hosts[p]}) is JAX's process {number}"
                for p, number in other.items()
            )
            raise LaunchError(
                f"JAX numbers the processes in another order: {listed}. Name the hosts in JAX's order with "
                f"{option('hosts')}."
            )

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """Return the number of global devices."""
        first = next(iter(answers.values()))
        if first.everywhere is None:
            return None
        return count_text(first.everywhere, f"{plan.platform} device")

    def known(self, answers: Mapping[int, Described]) -> dict[int, Initialized]:
        """Return the devices of engines that are already in one cluster of JAX, or of a single engine."""
        devices = {p: facts.devices for p, facts in answers.items() if facts.devices is not None}
        joined = all(facts.joined for facts in answers.values()) or len(answers) == 1
        if not joined or len(devices) < len(answers):
            return {}
        return {
            p: Initialized(
                process_id=p,
                version=answers[p].version,
                local=its.local,
                everywhere=its.everywhere,
                platform=its.platform,
            )
            for p, its in devices.items()
        }


def platform_variable(asked: Asked) -> dict[str, str]:
    """Return `JAX_PLATFORMS` for all hosts: the value already set, if JAX would choose the platform by it."""
    value = asked.environment.get("JAX_PLATFORMS")
    if not value or platform_of(asked.environment) != asked.platform:
        value = PLATFORMS[asked.platform]
    return {"JAX_PLATFORMS": value}


def stage(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> JaxStage:
    """Return the parameters that one process needs to join the cluster."""
    return JaxStage(
        processes=len(plan.processes),
        devices=None if plan.devices_by_flags else process.devices,
        arguments=arguments(plan, process, rendezvous) if plan.initialize else None,
        gloo=rendezvous.own.get(process.process_id),
    )


def arguments(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, Any]:
    """Return the keyword arguments of `jax.distributed.initialize` for one process.

    All are given, and detection is switched off: JAX detects a cluster whenever `local_device_ids` is
    unset, even with all else given, and stray SLURM_* or OMPI_* variables would mislead it.
    """
    found: dict[str, Any] = {
        "coordinator_address": rendezvous.coordinator_of(process.process_id),
        "num_processes": len(plan.processes),
        "process_id": process.process_id,
        "cluster_detection_method": "deactivate",
        "coordinator_bind_address": rendezvous.coordinator,
    }
    if rendezvous.served:
        # nbdist itself notices a process that dies; a pause of all processes must not end them.
        found["heartbeat_timeout_seconds"] = HEARTBEAT_SECONDS
    if process.local_device_ids is not None:
        found["local_device_ids"] = list(process.local_device_ids)
    if process.partition_index is not None:
        found["partition_index"] = process.partition_index
    found |= plan.jax
    if rendezvous.served:
        # JAX always makes process 0 start a service; no process connects to it at this address.
        found["coordinator_bind_address"] = UNUSED
    return found


GPU_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin")


def platform_of(environment: Mapping[str, str], *, root: Path = Path("/")) -> Platform:
    """Return the platform JAX would choose: a TPU, else a GPU, else CPU.

    An accelerator counts only if JAX's plug-in for it is installed as well. `JAX_PLATFORMS` in
    `environment` decides if it is set.

    JAX itself is not asked: importing it here would start a back end in the kernel, and a TPU belongs to the first
    process that does so.
    """
    asked = environment.get("JAX_PLATFORMS", "").split(",")[0]
    if asked:
        return {"cpu": "cpu", "tpu": "tpu"}.get(asked, "gpu")  # type: ignore[return-value]
    found = checkup.accelerators(root)
    if find_spec("libtpu") and found["tpus"]:
        return "tpu"
    if any(map(find_spec, GPU_PLUGINS)) and found["gpus"]:
        return "gpu"
    return "cpu"


FRAMEWORK = JaxLaunch()
