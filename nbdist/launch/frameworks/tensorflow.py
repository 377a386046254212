"""TensorFlow: `TF_CONFIG` for every role, then one strategy on all workers.

Source: https://www.tensorflow.org/guide/distributed_training and `TFConfigClusterResolver`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.contract.calls.engine import DevicesStage, StrategyStage
from nbdist.errors import LaunchError, OptionError
from nbdist.launch.model.framework import Answers, Asked, Chosen, FrameworkLaunch, Rendezvous
from nbdist.launch.model.plan import Plan, PlannedProcess, Platform, Role
from nbdist.machine import checkup
from nbdist.notation import count_text
from nbdist.spelling import option

SERVER_SAYS = (
    "TensorFlow's own server listens on every interface of its host, without a key: "
    "use it in networks you trust."
)

MIB = 1 << 20


class TensorFlowLaunch(FrameworkLaunch):
    """TensorFlow as the framework of a session.

    `memory_bytes` were measured with 2 processes on CPU, tensorflow 2.21: an agent 859 MiB, processes with their
    nannies 143 MiB of their own after a first computation; rounded up.
    """

    name = "tensorflow"
    title = "TensorFlow"
    options = frozenset({"evaluators"})
    has_roles = True
    each_serves = True
    reads_tf_config = True
    recovery = "strategy"
    after_failure = "{recover} creates a new strategy and keeps your variables."
    compared = ("tensorflow", "keras")
    requirement = "'nbdist[tensorflow]'"
    memory_bytes = (900 * MIB, 200 * MIB)

    def platform(self, environment: Mapping[str, str]) -> Platform:
        """Return the platform that TensorFlow chooses: GPUs if there are any, else CPU."""
        return "gpu" if checkup.accelerators()["gpus"] else "cpu"

    def role(self, role: Role, number: int) -> str | None:
        """Return the role of a process, such as `worker 0, chief`."""
        return f"{role} {number}{', chief' if role == 'worker' and number == 0 else ''}"

    def choose(self, asked: Asked) -> Chosen:
        """Return the addresses of a `TF_CONFIG` that is set."""
        existing = asked.environment.get("KERAS_BACKEND", "tensorflow")
        if existing != "tensorflow":
            raise OptionError(
                f"{option('framework', 'tensorflow')}, but KERAS_BACKEND={existing} is set. Unset it, or use "
                f"{option('framework', 'keras')} {option('backend', existing)}."
            )
        addresses = chosen_addresses(
            asked.environment,
            workers=max(asked.processes, 1),
            evaluators=asked.options.evaluators,
        )
        refuse(asked)
        return Chosen(addresses=addresses, environment={"KERAS_BACKEND": "tensorflow"})

    def preload(self, plan: Plan) -> list[str]:
        """Return TensorFlow, and the Keras its users will import: else each worker would import it by itself."""
        given = {**os.environ, **plan.environment}
        legacy = given.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
        return ["tensorflow", "tf_keras" if legacy else "keras"]

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Return `TF_CONFIG` for several processes; a single one would take it for a cluster of its own."""
        config = tf_config(plan, process, rendezvous)
        return {} if config is None else {"TF_CONFIG": config}

    def stages(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Sequence[Any]:
        """Return two stages: devices, which must be set before any operation and are compared; the strategy."""
        devices = DevicesStage(
            platform=plan.platform,
            devices=process.devices,
            local_device_ids=process.local_device_ids,
        )
        if not plan.initialize:
            return [devices]
        return [devices, strategy_stage(plan, process, rendezvous)]

    def check(self, plan: Plan, answers: Answers) -> None:
        """Refuse workers with different numbers of devices.

        Raises:
          LaunchError: The text has the counts.
        """
        workers = [worker.process_id for worker in plan.workers]
        counts = {p: count for p in workers if (count := answers[p].local) is not None}
        if len(set(counts.values())) > 1:
            listed = ", ".join(
                f"process {p} (host {plan.hosts[p]}) has {count_text(count, 'device')}"
                for p, count in counts.items()
            )
            raise LaunchError(
                f"MultiWorkerMirroredStrategy wants the same number of devices on every worker; {listed}. Give "
                f"each {min(counts.values())} with {option('local_device_ids')} or "
                f"{option('devices_per_process')}."
            )

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """Return the strategy, its replicas, and the evaluators."""
        first = answers[plan.workers[0].process_id]
        if first.strategy is None or first.replicas is None:
            return None
        evaluators = len(plan.processes) - len(plan.workers)
        beside = f" and {count_text(evaluators, 'evaluator')}" if evaluators else ""
        replicas = count_text(first.replicas, f"{plan.platform} replica")
        return f"{first.strategy} with {replicas}{beside}"

    def remarks(self, plan: Plan, answers: Answers) -> list[str]:
        """Return what was adapted, and that TensorFlow's server listens on every interface."""
        said = list(dict.fromkeys(answer.said for answer in answers.values() if answer.said))
        return [*said, SERVER_SAYS] if len(plan.processes) > 1 else said


def strategy_stage(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> StrategyStage:
    """Return the parameters with which a process makes its strategy, at the start or again after a failure."""
    return StrategyStage(
        tf_config=tf_config(plan, process, rendezvous),
        role=process.role,
        process_id=process.process_id,
        workers=tuple(worker.process_id for worker in plan.workers),
    )


def tf_config(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> str | None:
    """Return the `TF_CONFIG` of one process, as JSON; None for a process alone."""
    if len(plan.processes) == 1:
        return None
    cluster: dict[str, list[str]] = {}
    for other in plan.processes:
        cluster.setdefault(other.role, []).append(rendezvous.tasks[other.process_id])
    task = {"type": process.role, "index": process.task_index}
    return json.dumps({"cluster": cluster, "task": task})


def refuse(asked: Asked) -> None:
    """Refuse what TensorFlow's strategies cannot do.

    Raises:
      OptionError: TPUs, several CPU devices per worker, or unequal device counts.
    """
    each = asked.options.devices_per_process
    if asked.platform == "tpu":
        raise OptionError(
            f"{option('framework', 'tensorflow')} on TPUs is not supported here: use "
            f"{option('framework', 'keras')} or jax."
        )
    if asked.platform == "cpu" and asked.processes > 1 and (each or 1) > 1:
        raise OptionError(
            f"{option('devices_per_process', each)} with {asked.processes} workers: on cpu "
            "MultiWorkerMirroredStrategy uses one device of each worker. Use more processes, or "
            f"{option('processes', 1)} for a MirroredStrategy over the devices of one."
        )
    counts = [len(ids) for ids in asked.options.local_device_ids or ()]
    if len(set(counts)) > 1:
        raise OptionError(
            f"{option('local_device_ids')} gives the workers {', '.join(map(str, counts))} devices; "
            "MultiWorkerMirroredStrategy wants the same number on every worker."
        )


def chosen_addresses(given: Mapping[str, str], *, workers: int, evaluators: int) -> tuple[str, ...]:
    """Return the addresses of a `TF_CONFIG` that is already set, workers first; empty for none.

    Raises:
      OptionError: It is for another number of processes, or cannot be read.
    """
    text = given.get("TF_CONFIG")
    if not text:
        return ()
    try:
        config = json.loads(text)
        cluster = {role: [str(a) for a in tasks] for role, tasks in config["cluster"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(
            f"TF_CONFIG is set but cannot be read ({error}): {text}. Unset the variable, and nbdist chooses "
            "addresses."
        ) from error
    wanted = {"worker": workers, "evaluator": evaluators}
    wanted = {role: count for role, count in wanted.items() if count}
    found = {role: len(tasks) for role, tasks in cluster.items() if tasks}
    if found != wanted:
        raise OptionError(
            f"TF_CONFIG is set for {_counts(found)}, but {_counts(wanted)} are asked for "
            f"({option('processes')}, {option('evaluators')}). Make them agree, or unset the variable."
        )
    return (*cluster["worker"], *cluster.get("evaluator", []))


def _counts(tasks: Mapping[str, int]) -> str:
    return " and ".join(count_text(count, role) for role, count in tasks.items()) or "nothing"


FRAMEWORK = TensorFlowLaunch()
