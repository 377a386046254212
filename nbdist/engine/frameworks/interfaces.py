"""Interface between an engine and the frameworks on it, and helpers that several frameworks share.

Each side knows the other by protocols and data classes alone. A framework sees the engine as `ThisProcess`. An
engine sees what keeps its processes in step as `Steps`, what repairs them in place as `Repairs`, and what a
framework finds in a planned value as `ArrayShape`, `AskedSpec` and `AskedLayout`. Imports nothing outside the
standard library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from nbdist.contract.calls.stepping import (
    Labels,
    Origin,
    Proven,
    Restored,
    SavedForRepair,
    Sent,
    Trail,
    UnderWay,
)
from nbdist.contract.iopub import CellStep
from nbdist.engine.cell.code_owners import packages_of
from nbdist.engine.cell.interrupts import InterruptHandler
from nbdist.engine.cell.main_thread import MainThread
from nbdist.engine.cell.output import Descriptors
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.stop import AgreedStop
from nbdist.engine.frameworks import frameworks, imported
from nbdist.engine.probe.classes import Library
from nbdist.spelling import Placeholder, command, option, start_with


class Steps(Protocol):
    """One process's part in staying in step with the others.

    Attributes:
      unsettled: Whether a cell has failed here since the processes were last known to be in step.
    """

    unsettled: bool

    @property
    def ports(self) -> frozenset[int]:
        """The ports at which this process accepts connections for collectives."""

    def meet(self, others: Collection[int]) -> None:
        """Take the ports at which the other processes accept connections for collectives."""

    def sent(self) -> Sent:
        """Return counts of the programs sent to devices of other processes since all were last in step."""

    def sent_so_far(self, main: MainThread) -> Sent:
        """Return the same as `sent` in the middle of a cell, without the main thread's help."""

    def labels(self) -> Labels:
        """Return the names of the programs sent since all were last in step, and their collectives."""

    def trail(self) -> Trail:
        """Return the counts of `sent`, and which programs these were."""

    def under_way(self, common: int) -> UnderWay:
        """Return how many arrays of the programs up to serial `common` are not computed yet, and the progress."""

    def begin_cell(
        self,
        run: int,
        targets: Collection[int],
        namespace: dict[str, Any],
        *,
        in_step: Sequence[int] | None,
        code: bool = True,
    ) -> None:
        """Begin a cell, or a round of copies; called on the main thread."""

    def end_cell(self, number: int, *, failed: bool, compared: bool) -> None:
        """End a cell or an expression whose code has ended; called on the main thread."""

    def prove(self, number: int, *, timeout_s: float, compared: bool) -> Proven:
        """Take part in a proof that all processes are in step."""

    def abandon(self) -> None:
        """End the wait of the main thread for a proof, from any thread."""

    def cut(self) -> int:
        """End all collectives that wait, from any thread; return how many. A repair must follow."""


class Repairs(Protocol):
    """One repair of this process in place, in parts that all processes take together.

    Attributes:
      begun: Whether the back end has been taken down.
      saved: The result of `save`; None before.
    """

    begun: bool
    saved: SavedForRepair | None

    def save(self, common: int) -> SavedForRepair:
        """Copy all that the back end holds; change nothing."""

    def leave(self) -> None:
        """Take the back end down."""

    def rejoin(self, arguments: Mapping[str, Any]) -> None:
        """Join the other processes again, and start the back end."""

    def restore(
        self, lost: Collection[str], unnamed: Collection[Origin], generation: int
    ) -> Restored:
        """Make everything again on the new back end, except the lost arrays."""


class ThisProcess(Protocol):
    """This process, as the framework on it sees the engine.

    Attributes:
      shell: IPython's shell.
      process_id: The id of this process in the launch plan.
      step: This process's part in staying in step; set by the framework.
    """

    shell: Any
    host: str
    process_id: int
    cell: CurrentCell
    descriptors: Descriptors
    interrupts: InterruptHandler
    stop: AgreedStop
    step: Steps | None

    @property
    def folder(self) -> Path:
        """The folder on this host that is private to the session."""

    def publish_step(self, step: CellStep) -> None:
        """Publish whether this process is in step with the others at the end of a cell."""


Entries = tuple[tuple[str, ...], ...]
"""The mesh axes that split each dimension, in order; dimensions left out at the end are not split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSpec:
    """A spec as somebody has written it.

    Attributes:
      entries: One for each dimension that the spec names.
      axes: The sizes of the axes of the mesh that the spec was made for; None where it names no mesh.
      rule: The pattern that gave the spec; None where no pattern did.
      problem: Why the spec cannot be used; None where it can.
    """

    entries: Entries
    axes: Mapping[str, int] | None = None
    rule: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """One array of a value; it may have no values yet.

    Attributes:
      path: The rest of the Python expression that reaches the array, such as `['dense'].kernel`; for frameworks
        whose arrays have names of their own, that name with a `/` before it.
      name: The name that rules are matched against, such as `dense/kernel`.
      shape: The shape of the whole array.
      dtype: The name of the dtype, such as `bfloat16`.
      nbytes: The bytes of one whole copy.
      own: The spec that the array itself carries; None if it carries none.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    own: AskedSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLayout:
    """Specs that a tree of specs or a map of layouts asks for the arrays of a value.

    Attributes:
      specs: One for each array, in order; None for an array without a spec.
      unmatched: Patterns, or paths of specs, that match no array.
      axes: The sizes of the axes of the mesh that the specs were made for; None where they name no mesh.
      noun: The word for one of `unmatched` in a text, such as `rule` or `spec`.
    """

    specs: Sequence[AskedSpec | None]
    unmatched: Sequence[str]
    axes: Mapping[str, int] | None = None
    noun: str = "rule"


def array_bytes(shape: Sequence[int], itemsize: int) -> int:
    """Return the bytes of one whole copy of an array."""
    count = itemsize
    for size in shape:
        count *= size
    return count


def entry(part: Any) -> tuple[str, ...] | None:
    """Return the axes of one entry of a spec (None, a name, or several); None if the compiler is to decide."""
    if part is None:
        return ()
    if isinstance(part, str):
        return (part,)
    if isinstance(part, tuple | list):
        return tuple(map(str, part))
    return None


def packages() -> frozenset[str]:
    """Return the packages of all frameworks, for a walk over objects."""
    return packages_of(frameworks())


def libraries() -> list[Library]:
    """Return the libraries of all imported frameworks, for a walk over objects.

    Each comes before that of the framework it builds on.
    """
    found = (one.library() for one in imported())
    return [library for library in found if library is not None]


def explain_second_call(module: ModuleType) -> None:
    """Wrap `module.initialize` so that the error of a second call says that nbdist has made the first.

    Args:
      module: A module whose `initialize` raises when it is called again.
    """
    original = module.initialize

    @functools.wraps(original)
    def initialize(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(*args, **options)
        except Exception as error:
            error.add_note(
                f"{command('start')} has already called {module.__name__}.initialize with this process's id; "
                f"leave this line out, or start with {option('initialize', False)} to call it yourself."
            )
            raise

    module.initialize = initialize  # type: ignore[attr-defined]


NUMBER_OF_DEVICES = "jax_num_cpu_devices"
"""Option of JAX for the number of CPU devices of a process."""


def explain_late_devices(config: Any) -> None:
    """Wrap `jax.config.update` so that its error for another number of devices says what to type.

    Args:
      config: `jax.config`; its `update` refuses the number once a back end is up.
    """
    original = config.update

    @functools.wraps(original)
    def update(name: str, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(name, *args, **options)
        except RuntimeError as error:
            if name == NUMBER_OF_DEVICES:
                count = next(iter([*args, *options.values()]), Placeholder("N"))
                error.add_note(
                    f"{command('start')} has set the number of devices. For another number: "
                    f"{command('shutdown')}, then {start_with('devices_per_process', count)} "
                    "with your other options."
                )
            raise

    config.update = update


def after_users_call(module: ModuleType, then: Callable[[], object]) -> None:
    """Wrap `module.initialize` so that `then` is called after each call that succeeds."""
    original = module.initialize

    @functools.wraps(original)
    def initialize(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **options)
        then()
        return result

    module.initialize = initialize  # type: ignore[attr-defined]
