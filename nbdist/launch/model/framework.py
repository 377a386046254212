"""The launch side of a framework: facts and choices that a start, and the session after it, need."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdist.contract.calls.engine import Described, Initialized
from nbdist.contract.stages import EmptyStage
from nbdist.errors import OptionError
from nbdist.spelling import option

if TYPE_CHECKING:
    from nbdist.launch.model.plan import Plan, PlannedProcess, Platform, Role
    from nbdist.launch.model.rendezvous import Rendezvous

Answers = Mapping[int, Initialized]
"""The answers of processes to `initialize`, by process id."""

FOLDER = "nbdist.launch.frameworks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a start that a framework may respond to.

    `environment` is what the processes would get; `here` says whether process 0 is on this machine.
    """

    platform: Platform
    processes: int
    evaluators: int
    devices_per_process: int | None
    local_device_ids: Sequence[Sequence[int]] | None
    backend: str | None
    job_addresses: str | None
    environment: Mapping[str, str]
    here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The framework's choices for the plan; see `nbdist.launch.model.plan.Plan`."""

    backend: str | None = None
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Framework:
    """One framework; a module of `nbdist.launch.frameworks` has one as `FRAMEWORK`.

    Each default here suits a framework without the feature.
    """

    name: str = ""
    """The name for `%dist_init --framework`, and the package that is imported."""

    title: str = ""
    """The name as people write it."""

    options: frozenset[str] = frozenset()
    """Options that only some frameworks have, this one included, such as `backend` and `evaluators`."""

    has_roles: bool = False
    """Whether processes have a role and a number in it, such as `worker 0, chief`."""

    each_serves: bool = False
    """Whether every process has an address of its own, at which others reach it."""

    reads_tf_config: bool = False
    """Whether it, or a library on top of it, reads a process's role from `TF_CONFIG`."""

    joins_a_service: bool = False
    """Whether the processes join a coordination service that nbdist starts."""

    counts_nan: bool = False
    """Whether nbdist can count NaN in its arrays."""

    stops_at_steps: bool = False
    """Whether its processes can agree on a step before which all leave a cell."""

    interrupt: signal.Signals = signal.SIGINT
    """The signal that frees a process that waits in a collective, by itself or through a thread of nbdist."""

    recovery: Literal["in place", "strategy"] | None = None
    """How the processes go on after a failure: see `nbdist.session.recovery`; None: only with a restart."""

    after_failure: str = "{restart} starts afresh on the same plan."
    """What to type when a process has died; see `nbdist.spelling.sentence`."""

    compared: tuple[str, ...] = ()
    """Packages that must be of one version on all hosts."""

    memory_bytes: tuple[int, int] = (0, 0)
    """Bytes that the agent of a host needs with it before there is any data, and bytes of each process besides."""

    requirement: str = ""
    """The requirement that pip gets."""

    def platform(self, environment: Mapping[str, str]) -> Platform:
        """Return what the processes compute on if nobody has chosen."""
        return "cpu"

    def compared_with(self, backend: str | None) -> tuple[str, ...]:
        """Return `compared`, and the same of its back end."""
        return self.compared

    def choose(self, asked: Asked) -> Chosen:
        """Return the framework's choices for the plan; variables that are already set are respected or refused.

        Raises:
          OptionError: The framework cannot do what is asked.
        """
        return Chosen()

    def role(self, role: Role, number: int) -> str | None:
        """Return its name for a process, such as `"worker 0, chief"`; None if it has no such names."""
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

        Each is a dataclass of `nbdist.contract.stages`, as the engine's side declares in `stage`.
        """
        return [EmptyStage()]

    def late(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Any:
        """Return the first of `stages`, for a process that joins others which have joined each other before."""
        return self.stages(plan, process, rendezvous)[0]

    def always(self, platform: Platform) -> dict[str, str]:
        """Return variables for processes of every session, where a user may import it beside another framework."""
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
def framework_named(name: str) -> Framework:
    """Return the framework of this name.

    Raises:
      OptionError: There is none.
    """
    if name not in framework_names():
        known = ", ".join(framework_names())
        raise OptionError(f"{option('framework', name)}: known are {known}.")
    found: Framework = importlib.import_module(f"{FOLDER}.{name}").FRAMEWORK
    return found


def frameworks() -> list[Framework]:
    """Return all frameworks."""
    return [framework_named(name) for name in framework_names()]
