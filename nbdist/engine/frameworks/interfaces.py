"""Protocols between an engine and the frameworks on it: what each asks of the other.

A framework sees the engine as `ThisProcess`. An engine sees a framework's capabilities, the fields of `Framework`,
through the protocols here: `ClusterState`, `Arrays`, `Inspection`, `ArrayRecovery`, `Trees` and `Plans`. The
engine asks the first four of the one framework that the session computes with, so each has a class `No…` that
answers for a framework without the capability.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nbdist.errors import ArrayError, SessionError
from nbdist.spelling import option

if TYPE_CHECKING:
    from pathlib import Path

    from nbdist.contract.calls.engine import Membership, UsedDevices
    from nbdist.contract.calls.inspection import ArraysFound, NanCounts, ProgramFound, Summary
    from nbdist.contract.calls.stepping import (
        Forget,
        Labels,
        Origin,
        Proven,
        Restored,
        SavedForRepair,
        Sent,
        Trail,
        UnderWay,
        Versions,
    )
    from nbdist.contract.iopub import CellStep, Rescued
    from nbdist.engine.cell.interrupts import AgreedStop, InterruptHandler
    from nbdist.engine.cell.output import Descriptors
    from nbdist.engine.cell.running import CurrentCell
    from nbdist.engine.cell.stacks import MainThread
    from nbdist.engine.namespace.things import Placements
    from nbdist.engine.values.arrays import OfferedArray
    from nbdist.engine.values.incoming import Place


class ClusterState(Protocol):
    """Membership and devices of a process that nbdist may not have started; starts no back end."""

    def joined(self) -> Membership | None:
        """Return the place of this process in a cluster of the framework; None while it is in no cluster."""
        return None

    def devices(self) -> UsedDevices | None:
        """Return the devices of the back end; None while no back end is up."""
        return None

    def is_up(self) -> bool:
        """Return whether a back end is up; then the process can no longer join a cluster."""
        return False

    def configure(self, environment: Mapping[str, str]) -> list[str]:
        """Apply variables set after the framework was imported; return the names of those that come too late."""
        return list(environment)


class NoCluster(ClusterState):
    """Answers for a framework that cannot be in a cluster already when nbdist comes."""


class Arrays(Protocol):
    """Arrays on their way between this process and a kernel."""

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """Return the offer of this process's pieces of an array of the framework; None for anything else.

        Raises:
          ArrayError: The array has no values.
        """
        return None

    def placed(self, sharding: Any, expression: str) -> Place:
        """Return how to make arrays under a sharding, where each process makes its own pieces.

        Raises:
          ArrayError: `sharding` is no sharding, or the framework has no such arrays.
        """
        raise ArrayError(
            f"{option('sharding', expression)}: this session's framework has no arrays sharded over several "
            f"processes. Push the array whole, without {option('sharding')}."
        )


class NoArrays(Arrays):
    """Answers for a framework without arrays of its own."""


class Inspection(Protocol):
    """Answers about an array or a program that a person asks for."""

    def explain(self, value: Any, expression: str, process_id: int) -> ArraysFound:
        """Return where the pieces of an array lie, or of all arrays of a tree.

        Raises:
          ArrayError: The value holds no arrays.
        """
        kind = type(value)
        raise ArrayError(
            f"{expression!r}: nbdist does not know where arrays of {kind.__module__}.{kind.__name__} lie."
        )

    def nan(self, value: object, expression: str) -> NanCounts:
        """Count NaN and infinite values in this process's pieces of a tree.

        Raises:
          ArrayError: NaN are not counted in arrays of this framework.
        """
        raise ArrayError(f"{expression!r}: NaN are counted in JAX arrays only.")

    def program(
        self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
    ) -> ProgramFound:
        """Compile the program that a call would run, and return its description; do not run the program.

        Raises:
          ArrayError: There is no such program.
        """
        raise ArrayError(f"{expression!r}: only programs of jax.jit are explained.")


class NoInspection(Inspection):
    """Answers for a framework whose arrays and programs nbdist does not know."""


class Trees(Protocol):
    """Arrays of the framework in any value, whichever framework the session computes with."""

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """Return the same as `Inspection.explain` for a tree of the framework's arrays; None for anything else."""

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """Return a summary of this process's part of the array at a path; None for no array of this framework."""


class ArrayRecovery(Protocol):
    """Programs compared between processes, and recovery where they differ."""

    def versions(self, process: ThisProcess) -> Versions:
        """Return which program computed each array that lies on several processes."""
        raise SessionError("The programs of this session's framework are not counted.")

    def forget(self, process: ThisProcess, wrong: Forget) -> list[str]:
        """Drop these arrays, whose pieces do not belong together; return the other paths that led to them."""
        raise SessionError("The programs of this session's framework are not counted.")

    def name_lost(self, process: ThisProcess, texts: Mapping[str, str]) -> None:
        """Make the use of the lost arrays at these paths an error with these texts."""
        raise SessionError("The programs of this session's framework are not counted.")

    def repair(self, process: ThisProcess) -> Repairs:
        """Return a new repair of this process in place."""
        raise SessionError("This session's framework cannot be repaired in place.")

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Write this process's arrays to a file, not on the main thread; return None where this is impossible."""
        return None


class NoArrayRecovery(ArrayRecovery):
    """Answers for a framework whose programs are not counted."""


class Placing(Protocol):
    """Function that returns the `Placements` by which another process makes arrays and devices like those here."""

    def __call__(self, process: ThisProcess, *, processes: int | None = None) -> Placements:
        """Return the placements; `processes` is the new number of processes, None if it does not change."""


def not_moved(process: ThisProcess, *, processes: int | None = None) -> Placements:
    """Refuse, for a framework whose arrays are not moved.

    Raises:
      SessionError: Always.
    """
    raise SessionError("Arrays of this session's framework cannot be taken to a new process.")


class Plans(Protocol):
    """Shapes, meshes and specs of planned values; usable in any process."""

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """Return the shapes of a value's arrays, in its order; None for a value that is not of this framework.

        Raises:
          ArrayError: The value is of this framework, and has no arrays yet.
        """

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """Return the size of each axis of a mesh of the framework, in order; None for anything else."""

    def spec(self, value: Any) -> AskedSpec | None:
        """Return what a spec, layout or sharding of the framework asks; None for anything else."""

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """Return what a tree of specs, or a map of layouts, asks for the arrays of a value.

        Args:
          specs: Any object.
          arrays: The shapes of the value's arrays.
          value: The value; None where it is in another process.

        Returns:
          None for specs that are not of this framework.
        """


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
