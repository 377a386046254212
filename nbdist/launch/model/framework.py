"""Frameworks as a launch sees them: the facts and choices that a start, and the session after it, need.

The functions here find frameworks by name, name the processes of a plan, and say whether their number can change.
None of them imports a framework.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdist.contract.calls.engine import Described, EmptyStage, Initialized
from nbdist.errors import OptionError
from nbdist.launch.model.plan import Plan, PlannedProcess, Platform
from nbdist.spelling import option

if TYPE_CHECKING:
    from nbdist.launch.model.plan import Role
    from nbdist.launch.model.rendezvous import Rendezvous
    from nbdist.launch.model.start_options import StartOptions

Answers = Mapping[int, Initialized]
"""The answers of processes to `initialize`, by process id."""

FOLDER = "nbdist.launch.frameworks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a start, and the facts on which a framework's choices depend.

    `processes` is the number of processes, evaluators not counted. `environment` is what the processes would get
    so far. `here` says whether process 0 is on this machine.
    """

    options: StartOptions
    platform: Platform
    processes: int
    environment: Mapping[str, str]
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The framework's choices for the plan; see `nbdist.launch.model.plan.Plan`."""

    backend: str | None = None
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class FrameworkLaunch:
    """One framework; a module of `nbdist.launch.frameworks` has one as `FRAMEWORK`.

    Each default here suits a framework without the feature.
    """

    name: str = ""
    """The name for `%dist_init --framework`, and the package that is imported."""

    title: str = ""
    """The name as people write it."""

    options: frozenset[str] = frozenset()
    """Options of this framework that not all have, such as `backend` and `evaluators`."""

    has_roles: bool = False
    """Whether processes have a role and a number in it, such as `worker 0, chief`."""

    each_serves: bool = False
    """Whether every process has an address of its own, at which others reach it."""

    reads_tf_config: bool = False
    """Whether the framework, or a library on top of it, reads a process's role from `TF_CONFIG`."""

    joins_a_service: bool = False
    """Whether the processes join a coordination service that nbdist starts."""

    counts_nan: bool = False
    """Whether nbdist can count NaN in its arrays."""

    stops_at_steps: bool = False
    """Whether its processes can agree on a step before which all leave a cell."""

    interrupt: signal.Signals = signal.SIGINT
    """The signal that frees a process that waits in a collective, by itself or through a thread of nbdist."""

    recovery: Literal["in place", "strategy"] | None = None
    """The way in which processes go on after a failure (see `nbdist.session.recovery`); None: only a restart."""

    after_failure: str = "{restart} starts afresh on the same plan."
    """The sentence with what to type when a process has died; see `nbdist.spelling.sentence`."""

    compared: tuple[str, ...] = ()
    """Packages that must be of one version on all hosts."""

    memory_bytes: tuple[int, int] = (0, 0)
    """Bytes that a host's agent needs with the framework before there is any data, and bytes of each process."""

    requirement: str = ""
    """The requirement that pip gets."""

    def platform(self, environment: Mapping[str, str]) -> Platform:
        """Return what the processes compute on if nobody has chosen."""
        return "cpu"

    def compared_with(self, backend: str | None) -> tuple[str, ...]:
        """Return the packages in `compared`, and those of the back end that must be of one version as well."""
        return self.compared

    def choose(self, asked: Asked) -> Chosen:
        """Return the framework's choices for the plan; variables that are already set are respected or refused.

        Raises:
          OptionError: The framework cannot do what is asked.
        """
        return Chosen()

    def role(self, role: Role, number: int) -> str | None:
        """Return the framework's name for a process, such as `"worker 0, chief"`; None if it has no such names."""
        return None

    def preload(self, plan: Plan) -> list[str]:
        """Return modules to import once on each host, before processes are forked."""
        return [self.name]

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Return variables of one process, which are set before it imports the framework."""
        return {}

    def stages(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Sequence[Any]:
        """Return the arguments of the engine's `initialize`, one entry per call; equally many on all processes.

        Each is a dataclass of `nbdist.contract.calls.engine`, as the engine's side declares in `stage`.
        """
        return [EmptyStage()]

    def late(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Any:
        """Return the first of `stages`, for a process that joins processes which are already connected."""
        return self.stages(plan, process, rendezvous)[0]

    def always(self, platform: Platform) -> dict[str, str]:
        """Return variables for the processes of every session: a user may import several frameworks."""
        return {}

    def rejoin(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, Any]:
        """Return what a process needs to join the others at a new service; see `Repairs.rejoin` of the engine."""
        raise NotImplementedError

    def check(self, plan: Plan, answers: Answers) -> None:
        """Check the answers of all processes after each stage.

        Raises:
          LaunchError: The processes cannot go on to the next stage together.
        """

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """Return what the processes compute on, such as `"8 cpu devices"`; None if they are not initialized."""
        return None

    def remarks(self, plan: Plan, answers: Answers) -> list[str]:
        """Return sentences a person must read once after the start."""
        return []

    def known(self, answers: Mapping[int, Described]) -> dict[int, Initialized]:
        """Return the answers of `initialize` for engines that are already initialized; empty: call it.

        Args:
          answers: The engines' descriptions of themselves.
        """
        return {}


@functools.cache
def framework_names() -> tuple[str, ...]:
    """Return the names of all frameworks, in alphabetical order."""
    folder = importlib.import_module(FOLDER)
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder.__path__)))


@functools.cache
def framework_named(name: str) -> FrameworkLaunch:
    """Return the framework of this name.

    Raises:
      OptionError: There is none.
    """
    if name not in framework_names():
        known = ", ".join(framework_names())
        raise OptionError(f"{option('framework', name)}: known are {known}.")
    found: FrameworkLaunch = importlib.import_module(f"{FOLDER}.{name}").FRAMEWORK
    return found


def frameworks() -> list[FrameworkLaunch]:
    """Return all frameworks."""
    return [framework_named(name) for name in framework_names()]


def ids_by_role(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return process ids by the name of their role; empty if the framework has no roles."""
    if not framework_named(plan.framework).has_roles:
        return {}
    workers = tuple(process.process_id for process in plan.workers)
    evaluators = tuple(sorted(plan.hosts.keys() - set(workers)))
    return {"worker": workers, "chief": workers[:1], "evaluator": evaluators}


def role_name(plan: Plan, process: PlannedProcess) -> str | None:
    """Return the framework's name for a process, such as `"worker 0, chief"`; None if it has no such names."""
    return framework_named(plan.framework).role(process.role, process.task_index)


def why_fixed(plan: Plan) -> str | None:
    """Return why the number of processes cannot change, as a sentence; None if it can.

    Args:
      plan: The plan as it was asked for.
    """
    framework = framework_named(plan.framework)
    if framework.recovery != "in place" or plan.backend not in (None, "jax"):
        back_end = f" on {plan.backend}" if plan.backend else ""
        return (
            "The number of processes can change for JAX, and for Keras on JAX; these compute with "
            f"{framework.title}{back_end}."
        )
    if plan.addresses:
        return "Addresses were given to processes one by one."
    if plan.platform != "cpu":
        return (
            f"The number of processes can change only on the CPU: a {plan.platform.upper()} belongs to one "
            "process at a time, and new processes start while the others still run."
        )
    job = plan.placement.job
    if job is not None and job.allocation is None:
        return (
            "The processes are the tasks of a job, and a job keeps its size; a step of an allocation (salloc, "
            "sbatch) can change its own."
        )
    if not plan.initialize:
        return "The cells themselves have joined the processes."
    if plan.jax.get("local_device_ids") or any(
        one.local_device_ids is not None or one.partition_index is not None
        for one in plan.processes
    ):
        return "Devices were given to processes one by one."
    return None


def can_leave_out_hosts(plan: Plan) -> bool:
    """Return whether the session can go on without one of its hosts; never if a scheduler places the tasks."""
    return (
        len(set(plan.hosts.values())) > 1 and why_fixed(plan) is None and plan.placement.job is None
    )
