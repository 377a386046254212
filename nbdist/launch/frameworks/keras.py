"""Keras 3: `keras.distribution.initialize` on each process, its variables in place before the import.

Source: https://keras.io/api/distribution and `keras.src.distribution.distribution_lib.initialize`, which
reads the `KERAS_DISTRIBUTION_*` variables when it is called without arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from nbdist.contract.calls.engine import Described, Initialized, KerasArguments, KerasStage
from nbdist.errors import OptionError
from nbdist.launch.frameworks import jax
from nbdist.launch.model.framework import Answers, Asked, Chosen, Rendezvous, checked_coordinator
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.spelling import option

BACKENDS = ("jax", "tensorflow", "torch")
ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
COUNT = "KERAS_DISTRIBUTION_NUM_PROCESSES"
PROCESS = "KERAS_DISTRIBUTION_PROCESS_ID"


class KerasLaunch(jax.JaxLaunch):
    """Keras as the framework of a session; its JAX back end does all that concerns several processes.

    `memory_bytes` were measured with 2 processes on CPU, keras 3.15 on jax 0.10.2: an agent 304 MiB, processes
    with their nannies 86 MiB of their own after a first computation; rounded up.
    """

    name = "keras"
    title = "Keras"
    options = frozenset({"coordinator", "backend", "job_addresses"})
    reads_tf_config = True
    compared = ("keras",)
    memory_bytes = (350 * jax.MIB, 120 * jax.MIB)
    requirement = "'nbdist[keras]'"

    def compared_with(self, backend: str | None) -> tuple[str, ...]:
        """Return Keras and its back end."""
        if backend in (None, "jax"):
            return (*self.compared, *jax.JaxLaunch.compared)
        return (*self.compared, "tensorflow") if backend == "tensorflow" else self.compared

    def choose(self, asked: Asked) -> Chosen:
        """Return the back end, and the addresses that `keras.distribution.initialize` gets."""
        backend = chosen_backend(asked.options.backend, asked.environment)
        of_jax = jax.platform_variable(asked) if backend == "jax" else {}
        return Chosen(
            backend=backend,
            addresses=chosen_addresses(
                asked.options.job_addresses,
                asked.environment,
                processes=max(asked.processes, 1),
                here=asked.here,
            ),
            environment={"KERAS_BACKEND": backend, **of_jax},
        )

    def known(self, answers: Mapping[int, Described]) -> dict[int, Initialized]:
        """Return nothing: Keras must still be set up on each engine."""
        return {}

    def preload(self, plan: Plan) -> list[str]:
        """Return Keras, which imports its back end."""
        return ["keras"]

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Return the variables that `keras.distribution.initialize()` reads when it is called without arguments.

        The bind address of JAX's coordinator is not an argument of Keras; JAX reads it from a variable.
        """
        return {
            ADDRESSES: addresses(plan, rendezvous),
            COUNT: str(len(plan.processes)),
            PROCESS: str(process.process_id),
            "JAX_COORDINATOR_BIND_ADDRESS": str(
                jax.arguments(plan, process, rendezvous)["coordinator_bind_address"]
            ),
        }

    def stages(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Sequence[Any]:
        """Return one stage: join the cluster."""
        assert plan.backend is not None
        through_jax = jax.stage(plan, process, rendezvous)
        joined = KerasArguments(
            job_addresses=addresses(plan, rendezvous),
            num_processes=len(plan.processes),
            process_id=process.process_id,
        )
        return [
            KerasStage(
                backend=plan.backend,
                devices=through_jax.devices,
                arguments=joined if plan.initialize else None,
                # Keras has no arguments for these; they are added when it calls JAX.
                jax={
                    name: value
                    for name, value in (through_jax.arguments or {}).items()
                    if name not in ("num_processes", "process_id")
                },
                gloo=through_jax.gloo,
            )
        ]

    def late(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Any:
        """Return the stage without computations that all processes must do together, such as a seed."""
        (stage,) = self.stages(plan, process, rendezvous)
        return structs.replace(stage, late=True)

    def check(self, plan: Plan, answers: Answers) -> None:
        """Do nothing: the back end has compared the processes already."""

    def remarks(self, plan: Plan, answers: Answers) -> list[str]:
        """Return sentences about cases where the back end does not do what `keras.distribution` promises."""
        return list(dict.fromkeys(answer.said for answer in answers.values() if answer.said))


def addresses(plan: Plan, rendezvous: Rendezvous) -> str:
    """Return the coordinator's address with its port, then those of other processes if given; in Keras' form."""
    return ",".join((rendezvous.coordinator, *plan.addresses[1:]))


def chosen_backend(asked: str | None, given: Mapping[str, str]) -> str:
    """Return the back end: the one asked for, else KERAS_BACKEND, else JAX.

    Raises:
      OptionError: The back end is unknown, or the requested one differs from KERAS_BACKEND.
    """
    if asked is not None and asked not in BACKENDS:
        raise OptionError(f"{option('backend', asked)}: known are {', '.join(BACKENDS)}.")
    existing = given.get("KERAS_BACKEND")
    if existing and asked and existing != asked:
        raise OptionError(
            f"{option('backend', asked)}, but KERAS_BACKEND={existing} is set. Leave one out, or make them "
            "agree."
        )
    chosen = asked or existing or "jax"
    if chosen not in BACKENDS:
        raise OptionError(f"KERAS_BACKEND={chosen}: known are {', '.join(BACKENDS)}.")
    return chosen


def chosen_addresses(
    asked: str | None, given: Mapping[str, str], *, processes: int, here: bool = True
) -> tuple[str, ...]:
    """Return the addresses: those asked for, else those of KERAS_DISTRIBUTION_JOB_ADDRESSES; empty for none.

    Args:
      asked: `HOST:PORT`, or one for each process, separated by commas.
      given: The environment the processes would get.
      processes: How many there will be.
      here: Whether process 0 is on this machine.

    Raises:
      OptionError: There is neither one address nor one for each process, a port is in use, or a variable
        disagrees.
    """
    _refuse_other_numbers(given, processes)
    existing = given.get(ADDRESSES)
    if existing and asked and existing != asked:
        raise OptionError(
            f"{option('job_addresses', asked)}, but {ADDRESSES}={existing} is set. Leave one out, or make them "
            "agree."
        )
    text, name = (asked, option("job_addresses")) if asked else (existing, ADDRESSES)
    if not text:
        return ()
    found = [part.strip() for part in text.split(",")]
    if len(found) not in (1, processes):
        raise OptionError(
            f"{name} has {len(found)} addresses for {processes} processes ({text}). "
            "Give the coordinator's alone, or one for each process."
        )
    first = checked_coordinator(found[0], variable=name, here=here)
    return (first or "", *found[1:])


def _refuse_other_numbers(given: Mapping[str, str], processes: int) -> None:
    count = given.get(COUNT)
    if count and count != str(processes):
        raise OptionError(
            f"{COUNT}={count} is set, but {processes} processes are asked for ({option('processes')}). Use "
            f"{option('processes', count)}, or unset the variable."
        )
    number = given.get(PROCESS)
    if number and (processes > 1 or number != "0"):
        raise OptionError(
            f"{PROCESS}={number} is set, but each of the {processes} processes gets its own, 0 and up. Unset "
            "the variable."
        )


FRAMEWORK = KerasLaunch()
