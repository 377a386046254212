"""What a start, and the session after it, must know of the framework that its processes compute with."""

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
"""By process id, what processes have answered to `initialize`."""

FOLDER = "nbdist.launch.frameworks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person has asked for, as far as a framework has a say in it.

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
    """What the plan then has of it; see `nbdist.launch.model.plan.Plan`."""

    backend: str | None = None
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Framework:
    """One framework; a module of `nbdist.launch.frameworks` has one as `FRAMEWORK`.

    What it says by itself is true of one that has nothing of the kind.
    """

    name: str = ""
    """As `%dist_init --framework` has it, and the package that is imported."""

    title: str = ""
    """As people write it."""

    options: frozenset[str] = frozenset()
    """Those options that only some frameworks have and this one has, such as `backend` and `evaluators`."""

    has_roles: bool = False
    """Whether processes have a role and a number in it, such as `worker 0, chief`."""

    each_serves: bool = False
    """Whether every process has an address of its own, at which others reach it."""

    reads_tf_config: bool = False
    """Whether it, or a library on top of it, takes `TF_CONFIG` for what a process is."""

    joins_a_service: bool = False
    """Whether the processes join a coordination service that nbdist starts."""

    counts_nan: bool = False
    """Whether NaN are counted in its arrays."""

    stops_at_steps: bool = False
    """Whether its processes can agree on a step before which all leave a cell."""

    interrupt: signal.Signals = signal.SIGINT
    """Frees a process that waits in a collective, or is taken by a thread of nbdist that does."""

    recovery: Literal["in place", "strategy"] | None = None
    """How the processes go on after a failure: see `nbdist.session.recovery`; None: only with a restart."""

    after_failure: str = "{restart} starts afresh on the same plan."
    """What to type when a process has died; see `nbdist.spelling.sentence`."""

    compared: tuple[str, ...] = ()
    """Packages that must be of one version on all hosts."""

    memory_bytes: tuple[int, int] = (0, 0)
    """What the agent of a host needs with it before there is any data, and each process beside that."""

    requirement: str = ""
    """What pip is asked for."""

    def platform(self, environment: Mapping[str, str]) -> Platform:
        """What the processes compute on where nobody has said."""
        return "cpu"

    def compared_with(self, backend: str | None) -> tuple[str, ...]:
        """`compared`, and the same of its back end."""
        return self.compared

    def choose(self, asked: Asked) -> Chosen:
        """What the plan has for it; variables that are already set are respected or refused.

        Raises:
          OptionError: What it cannot do.
        """
        return Chosen()

    def role(self, role: Role, number: int) -> str | None:
        """What it calls a process, such as `"worker 0, chief"`; None where it has no such names."""
        return None

    def preload(self, plan: Plan) -> list[str]:
        """Modules to import once on each host, before processes are forked."""
        return [self.name]

    def environment(
        self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous
    ) -> dict[str, str]:
        """Variables of one process, in place before it imports the framework."""
        return {}

    def stages(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Sequence[Any]:
        """What the engine's `initialize` takes, one entry a call; the same number on all processes.

        Each is a dataclass of `nbdist.contract.stages`, as the engine's side declares in `stage`.
        """
        return [EmptyStage()]

    def late(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> Any:
        """The first of `stages`, for a process that joins others which have joined each other before."""
        return self.stages(plan, process, rendezvous)[0]

    def always(self, platform: Platform) -> dict[str, str]:
        """Variables for the processes of every session, in which a user may import it beside another framework."""
        return {}

    def rejoin(self, plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, Any]:
        """What a process needs to join the others at a new service; see `Repairs.rejoin` of the engine."""
        raise NotImplementedError

    def check(self, plan: Plan, answers: Answers) -> None:
        """Looks at the answers of all after each stage.

        Raises:
          LaunchError: The processes cannot go on to the next stage together.
        """

    def summary(self, plan: Plan, answers: Answers) -> str | None:
        """What the processes compute on, such as `"8 cpu devices"`; None when not initialized."""
        return None

    def remarks(self, plan: Plan, answers: Answers) -> list[str]:
        """Sentences a person must read once after the start."""
        return []

    def known(self, answers: Mapping[int, Described]) -> dict[int, Initialized]:
        """What `initialize` would answer on engines that somebody else has initialized; empty: ask it.

        Args:
          answers: What each says of itself.
        """
        return {}


@functools.cache
def framework_names() -> tuple[str, ...]:
    """The names of all frameworks, in alphabetical order."""
    folder = importlib.import_module(FOLDER)
    return tuple(sorted(module.name for module in pkgutil.iter_modules(folder.__path__)))


@functools.cache
def framework_named(name: str) -> Framework:
    """The framework of this name.

    Raises:
      OptionError: There is none.
    """
    if name not in framework_names():
        known = ", ".join(framework_names())
        raise OptionError(f"{option('framework', name)}: known are {known}.")
    found: Framework = importlib.import_module(f"{FOLDER}.{name}").FRAMEWORK
    return found


def frameworks() -> list[Framework]:
    """All of them."""
    return [framework_named(name) for name in framework_names()]
