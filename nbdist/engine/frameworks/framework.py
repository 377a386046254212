"""What nbdist asks of a framework on an engine; each answer here is that of one that has no such thing."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.stages import EmptyStage
from nbdist.errors import ArrayError, SessionError
from nbdist.machine import checkup
from nbdist.spelling import option

if TYPE_CHECKING:
    from nbdist.contract.calls.arrays import ArraysFound, NanCounts, ProgramFound, Summary
    from nbdist.contract.calls.engine import Initialized, Membership, UsedDevices
    from nbdist.contract.calls.stepping import Origin, Versions
    from nbdist.contract.iopub import Rescued
    from nbdist.engine.agreement.comparer import Comparer
    from nbdist.engine.frameworks.process import Process
    from nbdist.engine.frameworks.shapes import ArrayShape, AskedLayout, AskedSpec
    from nbdist.engine.frameworks.stepping import Repairs
    from nbdist.engine.namespace.objects import Objects
    from nbdist.engine.namespace.placements import Placements
    from nbdist.engine.probe.library import Library
    from nbdist.engine.probe.observer import ModelObserver, Observer
    from nbdist.engine.probe.samples import Seen
    from nbdist.engine.values.arrays import OfferedArray
    from nbdist.engine.values.incoming import Place
    from nbdist.engine.values.parts import Children


class Framework:
    """One framework; a folder of `nbdist.engine.frameworks` has one as `FRAMEWORK`, in its module `framework`.

    Making it, and asking whether it is imported, imports nothing outside the standard library. No question starts
    a back end, except `initialize` and `Repairs.rejoin`.
    """

    name: str = ""
    """As `%dist_init --framework` has it."""

    title: str = ""
    """As people write it."""

    packages: tuple[str, ...] = ()
    """The first parts of the names of its modules, the one that is imported by `import …` first."""

    builds_on: str | None = None
    """The name of the framework whose arrays it uses; None where it has its own."""

    waits: Mapping[tuple[str, str], str] = {}
    """See `nbdist.engine.cell.code_owners.Owner`."""

    def is_imported(self) -> bool:
        """Whether this process has imported it."""
        return any(name in sys.modules for name in self.packages)

    def version(self) -> str | None:
        """Its version, as text; None where it is not installed."""
        found = getattr(sys.modules.get(self.packages[0]), "__version__", None)
        return str(found) if found is not None else checkup.version(self.packages[0])

    def is_compiling(self, path: str, function: str) -> bool:
        """See `nbdist.engine.cell.code_owners.Owner`."""
        return False

    # -- of the framework that the session computes with -----------------------------------------

    stage: Any = EmptyStage
    """What its `initialize` takes: a dataclass of `nbdist.contract.stages`, or a union of some."""

    def initialize(self, process: Process, stage: Any) -> Initialized:
        """Joins the cluster; blocks until all processes have.

        Args:
          process: This one.
          stage: One entry of what the launch side's `stages` gives.

        Returns:
          What the launch side's `check`, `summary` and `remarks` read, with the `ports` on which others connect
          where `process.step` has been set.

        Raises:
          SessionError: It cannot; says why, and what to type.
        """
        raise NotImplementedError

    def explain(self, process: Process, value: Any, expression: str) -> ArraysFound:
        """Where the pieces of an array lie, or of all arrays of a tree.

        Raises:
          ArrayError: It holds no arrays.
        """
        raise ArrayError(f"{expression!r}: nbdist does not know arrays of {self.title}.")

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """This process's pieces of an array of its own; None for anything else.

        Raises:
          ArrayError: It has no values.
        """
        return None

    def placed(self, sharding: Any, expression: str) -> Place:
        """How arrays are made of pieces, on this process its own, under a sharding.

        Raises:
          ArrayError: It is none, or the framework has no such arrays.
        """
        raise ArrayError(
            f"{option('sharding', expression)}: {self.title} has no arrays in pieces on several processes "
            f"here. Push the array whole, without {option('sharding')}."
        )

    def nan(self, value: object, expression: str) -> NanCounts:
        """NaN and infinite values in this process's pieces of a tree.

        Raises:
          ArrayError: They are not counted in arrays of this framework.
        """
        raise ArrayError(f"NaN are not counted in arrays of {self.title}.")

    def program(
        self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
    ) -> ProgramFound:
        """What a call would run, compiled and not run.

        Raises:
          ArrayError: There is no such program.
        """
        raise ArrayError(f"Programs of {self.title} are not explained; those of jax.jit are.")

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Writes what this process has to a file, from a thread of it; None where it cannot."""
        return None

    def store(self) -> Any | None:
        """A key-value store all processes share, with `key_value_set` and `key_value_dir_get`; None for none."""
        return None

    def refuse_saving(self) -> None:
        """Lets pass where variables are saved by shard.

        Raises:
          SessionError: They are not; says what to use.
        """
        raise SessionError(f"Variables of {self.title} are not saved by shard.")

    def keeps_its_own(self, value: Any) -> bool:
        """Whether this is an object of the framework, and not a container of arrays such as a list."""
        return False

    def state(self, value: Any) -> Any | None:
        """The arrays of an object that keeps its own, as a pytree, the same on all processes.

        Returns:
          None: nobody saves objects of this kind.
        """
        return None

    def set_state(self, value: Any, state: Any) -> None:
        """Has an object keep arrays of the same shapes and dtypes, and of the structure of its `state`."""
        raise NotImplementedError

    def versions(self, process: Process) -> Versions:
        """Which program computed each array on several processes."""
        raise SessionError(f"The programs of {self.title} are not counted.")

    def forget(
        self,
        process: Process,
        paths: Collection[str],
        unnamed: Collection[Origin],
        *,
        whole: bool = False,
    ) -> list[str]:
        """Takes arrays whose pieces do not belong together; answers which other paths led to them.

        Args:
          process: This one.
          paths: Of the arrays.
          unnamed: The origins of those that no path leads to.
          whole: See `nbdist.contract.calls.stepping.Forget`.
        """
        raise SessionError(f"The programs of {self.title} are not counted.")

    def repair(self, process: Process) -> Repairs:
        """A repair of this process in place that has just begun."""
        raise SessionError(f"{self.title} cannot be repaired in place.")

    def placements(self, process: Process, *, processes: int | None = None) -> Placements:
        """What its arrays and devices are to another process.

        Args:
          process: This one.
          processes: How many there are where they go; None: as many as here.
        """
        raise SessionError(f"Arrays of {self.title} cannot be taken to a new process.")

    def objects(self, process_id: int) -> Objects | None:
        """What its objects and settings are to a new process; None: all is pickled as it says."""
        return None

    # -- of a process that is not to compute -----------------------------------------------------

    def holds(self) -> str | None:
        """The platform whose devices it holds in this process; empty where it does not say which, None: none."""
        return None

    # -- of the framework of engines that somebody else has started ------------------------------

    def joined(self) -> Membership | None:
        """The place of this process in a cluster of the framework; None while it is in none."""
        return None

    def devices(self) -> UsedDevices | None:
        """The devices of its back end; None while none is up."""
        return None

    def is_up(self) -> bool:
        """Whether a back end is up, so that the process can join no cluster any more."""
        return False

    def configure(self, environment: Mapping[str, str]) -> list[str]:
        """Takes variables that came after its import; answers the names of those that come too late."""
        return list(environment) if self.is_imported() else []

    # -- of all that are there --------------------------------------------------------------------

    def install(self, shell: Any) -> None:
        """Has IPython show its arrays; called when an engine is made ready, before anything is imported."""

    def library(self) -> Library | None:
        """See `nbdist.engine.probe.observer.Observed`."""
        return None

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """See `nbdist.engine.probe.observer.Observed`."""
        return None

    def model_observer(self, main_thread: int, library: Library) -> ModelObserver | None:
        """See `nbdist.engine.probe.observer.Observed`."""
        return None

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """As `explain`, of a tree that holds arrays of this framework; None for any other."""
        return None

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """What this process has of the array under a path; None where none of this framework is there."""
        return None

    def comparer(self) -> Comparer | None:
        """What compares its arrays and settings between processes before a cell; one a process."""
        return None

    def unwrapped(self, value: Any) -> Any:
        """The array that a variable stands for when it is named by itself; anything else as it is."""
        return value

    def array_of(self, value: Any) -> Any:
        """The array that a variable stands for wherever it is met; anything else as it is."""
        return value

    def stand_in(self, value: object) -> object | None:
        """What is sent in place of an object whose class the notebook need not have; None: the object itself."""
        return None

    def children(self, value: object) -> Children | None:
        """What one of its containers holds; None for any other object."""
        return None

    def model_digest(self, value: object, path: str, offer_array: Any) -> str | None:
        """Equal for models of the same variables with equal values; None for what is no model of it.

        Args:
          value: Any object.
          path: How it is reached, for error texts.
          offer_array: That of the session's framework.

        Raises:
          ArrayError: A variable holds no values.
        """
        return None

    def model_glance(self, value: object) -> Seen | None:
        """See `nbdist.engine.probe.observer.Observed`."""
        return None

    # -- of values that are planned, in any process -----------------------------------------------

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """The arrays of a value by their shapes, in its order; None for what is not of this framework.

        Raises:
          ArrayError: It is, and has none yet.
        """
        return None

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """The size of each axis of a mesh of its own, in order; None for anything else."""
        return None

    def spec(self, value: Any) -> AskedSpec | None:
        """A spec, layout or sharding of its own; None for anything else."""
        return None

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """What a tree of specs, or a map of layouts, asks for the arrays of a value.

        Args:
          specs: Any object.
          arrays: Those of the value.
          value: None where it is in another process.

        Returns:
          None for specs that are not of this framework.
        """
        return None

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """The devices of a slice as an array in the shape of a mesh, and whether a dimension had to be split.

        Args:
          sizes: Of the axes of the mesh.
          devices: They need not be there: stand-ins have their place and kind.

        Returns:
          None where it does not lay meshes over a network, or cannot lay this one.
        """
        return None
