"""Frameworks as a launch sees them: the facts and choices that a start, and the session after it, need.

The functions here find frameworks by name, name the processes of a plan, choose the addresses at which they find
each other, and say whether their number can change. None of them imports a framework.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from nbdist.contract.calls.engine import Described, EmptyStage, Initialized
from nbdist.errors import OptionError
from nbdist.launch.model.plan import Plan, PlannedProcess, Platform
from nbdist.machine.ports import LOOPBACK
from nbdist.spelling import option

if TYPE_CHECKING:
    from nbdist.launch.model.plan import Role
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Addresses, each `HOST:PORT`.

    `coordinator` is the address of JAX's coordination service; `served` says that an agent serves there, else
    process 0 does. `tasks` is where each process serves, by process id, in frameworks where each does. `own` is
    the address, without a port, under which other hosts know the host of each process; empty if a person has
    chosen the coordinator's address and all are on one machine. `relays` is where each process reaches the service
    through the agent of its host, by process id; processes that are not listed reach it directly.
    """

    coordinator: str
    tasks: Mapping[int, str]
    served: bool = False
    own: Mapping[int, str] = field(default_factory=dict)
    relays: Mapping[int, str] = field(default_factory=dict)

    def coordinator_of(self, process_id: int) -> str:
        """Return where one process reaches the service."""
        return self.relays.get(process_id, self.coordinator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process can serve: a port that is reserved for it, and its host's address.

    The address is None if all processes are on this machine, so that no other host needs one.
    """

    address: str | None
    port: int


def checked_coordinator(
    text: str | None, *, variable: str | None = None, here: bool = True
) -> str | None:
    """Return `HOST[:PORT]` if process 0 can serve there; without a port, one is reserved later.

    Args:
      text: The address, as a person wrote it.
      variable: The variable that holds it; None: the option `coordinator`.
      here: Whether process 0 is on this machine, so that it can be tried.

    Raises:
      OptionError: The host is not this machine, or the port is in use, or cannot be read.
    """
    if text is None:
        return None
    given = option("coordinator", text) if variable is None else f"{variable} {text}"
    host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    if not port:
        if here:
            _try_host(host)
        return host
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(f"{given}: expected HOST or HOST:PORT.")
    if here:
        _try_port(host, int(port), given)
    return text


def _try_port(host: str, port: int, given: str) -> None:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OptionError(
                f"{given}: port {port} cannot be used on this machine ({error.strerror}). A new job that finds "
                "an old coordinator there would join and break it. Leave the port out, and a free one is "
                "chosen."
            ) from error


def _try_host(host: str) -> None:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise OptionError(
                f"{option('coordinator', host)}: not an address of this machine ({error.strerror or error})."
            ) from error


def meet(plan: Plan, places: Mapping[int, Place], *, again: bool = False) -> Rendezvous:
    """Return the addresses for a plan, at reserved ports where none were asked for.

    Args:
      plan: The processes to be started.
      places: Where each process can serve, by process id.
      again: Whether the ports of an earlier rendezvous are still in use: addresses that a person has chosen then
        keep their host, and get another port.
    """
    ids = [process.process_id for process in plan.processes]

    def serves(process_id: int, host: str | None = None) -> str:
        place = places[process_id]
        return f"{host or place.address or LOOPBACK}:{place.port}"

    own = {p: place.address for p, place in places.items() if place.address is not None}
    if framework_named(plan.framework).each_serves:
        addresses = list(plan.addresses)
        if again or not addresses:
            hosts: list[str | None] = [address.rpartition(":")[0] for address in addresses]
            hosts = hosts or [None] * len(ids)
            addresses = [serves(p, host) for p, host in zip(ids, hosts, strict=True)]
        tasks = dict(zip(ids, addresses, strict=True))
        return Rendezvous(coordinator=tasks[ids[0]], tasks=tasks, own=own)
    asked = plan.addresses[0] if plan.addresses else plan.coordinator
    if asked is not None and ":" not in asked:
        asked = serves(ids[0], asked)
    chosen = asked or serves(ids[0])
    # An address of this machine that a person has chosen is also used for gloo.
    here = set(own.values()) == {LOOPBACK}
    mine = {} if here and not chosen.startswith(LOOPBACK) else own
    return Rendezvous(coordinator=chosen, tasks={}, own=mine)
