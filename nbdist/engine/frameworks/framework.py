"""The interface of nbdist to a framework on an engine; methods here answer for a framework without the feature."""

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
    from nbdist.engine.agreement.facts import Comparer
    from nbdist.engine.frameworks.interfaces import (
        ArrayShape,
        AskedLayout,
        AskedSpec,
        Repairs,
        ThisProcess,
    )
    from nbdist.engine.namespace.placements import Objects, Placements
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.probe.observer import ModelObserver, Observer
    from nbdist.engine.probe.samples import SeenArray
    from nbdist.engine.values.arrays import Children, OfferedArray
    from nbdist.engine.values.incoming import Place


class Framework:
    """One framework; the module `framework` in each folder of `nbdist.engine.frameworks` has one as `FRAMEWORK`.

    The constructor and `is_imported` import nothing outside the standard library. No method starts a back end,
    except `initialize` and `Repairs.rejoin`.
    """

    name: str = ""
    """The name, as `%dist_init --framework` takes it."""

    title: str = ""
    """The name, as people write it."""

    packages: tuple[str, ...] = ()
    """The first parts of the names of its modules; the first entry is the package that users import."""

    builds_on: str | None = None
    """The name of the framework whose arrays this one uses; None where it has its own."""

    waits: Mapping[tuple[str, str], str] = {}
    """Functions of nbdist that poll, as `nbdist.engine.cell.code_owners.Owner` describes them."""

    def is_imported(self) -> bool:
        """Return whether this process has imported the framework."""
        return any(name in sys.modules for name in self.packages)

    def version(self) -> str | None:
        """Return the framework's version, as text; None where it is not installed."""
        found = getattr(sys.modules.get(self.packages[0]), "__version__", None)
        return str(found) if found is not None else checkup.version(self.packages[0])

    def is_compiling(self, path: str, function: str) -> bool:
        """Return whether a function of the framework traces, lowers or compiles; arguments as `Owner` has them."""
        return False

    # Of the framework that the session computes with.

    stage: Any = EmptyStage
    """The type of the `stage` of `initialize`: a dataclass of `nbdist.contract.stages`, or a union of some."""

    def initialize(self, process: ThisProcess, stage: Any) -> Initialized:
        """Join the cluster; block until all processes have joined.

        Args:
          process: This process.
          stage: One entry of the `stages` that the launch side makes.

        Returns:
          Facts for the launch side's `check`, `summary` and `remarks`. Where this method has set `process.step`,
          they include the `ports` at which other processes connect.

        Raises:
          SessionError: The process cannot join; the text says why, and what to type.
        """
        raise NotImplementedError

    def explain(self, process: ThisProcess, value: Any, expression: str) -> ArraysFound:
        """Return where the pieces of an array lie, or of all arrays of a tree.

        Raises:
          ArrayError: The value holds no arrays.
        """
        raise ArrayError(f"{expression!r}: nbdist does not know arrays of {self.title}.")

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """Return the offer of this process's pieces of an array of the framework; None for anything else.

        Raises:
          ArrayError: The array has no values.
        """
        return None

    def placed(self, sharding: Any, expression: str) -> Place:
        """Return how to make arrays under a sharding; each process makes them of its own pieces.

        Raises:
          ArrayError: `sharding` is no sharding, or the framework has no such arrays.
        """
        raise ArrayError(
            f"{option('sharding', expression)}: {self.title} has no arrays in pieces on several processes "
            f"here. Push the array whole, without {option('sharding')}."
        )

    def nan(self, value: object, expression: str) -> NanCounts:
        """Count NaN and infinite values in this process's pieces of a tree.

        Raises:
          ArrayError: NaN are not counted in arrays of this framework.
        """
        raise ArrayError(f"NaN are not counted in arrays of {self.title}.")

    def program(
        self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
    ) -> ProgramFound:
        """Compile the program that a call would run, and return its description; do not run the program.

        Raises:
          ArrayError: There is no such program.
        """
        raise ArrayError(f"Programs of {self.title} are not explained; those of jax.jit are.")

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Write this process's arrays to a file, not on the main thread; return None where this is impossible."""
        return None

    def store(self) -> Any | None:
        """Return the store of all processes (`key_value_set`, `key_value_dir_get`); None if there is none."""
        return None

    def refuse_saving(self) -> None:
        """Return if variables can be saved by shard, and raise otherwise.

        Raises:
          SessionError: They cannot; the text says what to use.
        """
        raise SessionError(f"Variables of {self.title} are not saved by shard.")

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object of the framework, and not a container of arrays such as a list."""
        return False

    def state(self, value: Any) -> Any | None:
        """Return an object's own arrays, as the same pytree on all processes; None: this kind is not saved."""
        return None

    def set_state(self, value: Any, state: Any) -> None:
        """Put arrays into an object; structure, shapes and dtypes must be those of its own `state`."""
        raise NotImplementedError

    def versions(self, process: ThisProcess) -> Versions:
        """Return which program computed each array that lies on several processes."""
        raise SessionError(f"The programs of {self.title} are not counted.")

    def forget(
        self,
        process: ThisProcess,
        paths: Collection[str],
        unnamed: Collection[Origin],
        *,
        whole: bool = False,
    ) -> list[str]:
        """Drop arrays whose pieces do not belong together; return the other paths that led to them.

        Args:
          process: This process.
          paths: The paths of the arrays.
          unnamed: The origins of the arrays that no path leads to.
          whole: As `nbdist.contract.calls.stepping.Forget` has it.
        """
        raise SessionError(f"The programs of {self.title} are not counted.")

    def repair(self, process: ThisProcess) -> Repairs:
        """Return a new repair of this process in place."""
        raise SessionError(f"{self.title} cannot be repaired in place.")

    def placements(self, process: ThisProcess, *, processes: int | None = None) -> Placements:
        """Return how another process makes objects of its own like the framework's arrays and devices here.

        Args:
          process: This process.
          processes: The number of processes at the destination; None: as many as here.
        """
        raise SessionError(f"Arrays of {self.title} cannot be taken to a new process.")

    def objects(self, process_id: int) -> Objects | None:
        """Return how objects and settings go to a new process; None: all objects are pickled in their own way."""
        return None

    # Of a process that is not to compute.

    def holds(self) -> str | None:
        """Return the platform of the devices held in this process; empty if not known, None if none are held."""
        return None

    # Of the framework of engines that somebody else has started.

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
        """Apply variables that were set after the import; return the names of those that come too late."""
        return list(environment) if self.is_imported() else []

    # Of all frameworks.

    def install(self, shell: Any) -> None:
        """Make IPython show the framework's arrays; called while an engine is made ready, before any import."""

    def library(self) -> Library | None:
        """Return the library of the framework, one for each observer or walk; None if it has none."""
        return None

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """Return an observer of the framework's arrays; None if it has none of its own."""
        return None

    def model_observer(self, main_thread: int, library: Library) -> ModelObserver | None:
        """Return an observer of the framework's models, found through `library`; None if it has none."""
        return None

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """Return the same as `explain` for a tree with arrays of this framework; None for any other value."""
        return None

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """Return a summary of this process's part of the array at a path; None for no array of this framework."""
        return None

    def comparer(self) -> Comparer | None:
        """Return this process's comparer of arrays and settings before a cell; None if nothing is compared."""
        return None

    def unwrapped(self, value: Any) -> Any:
        """Return the array for a variable that is named by itself; anything else as it is."""
        return value

    def array_of(self, value: Any) -> Any:
        """Return the array for a variable wherever it is met; anything else as it is."""
        return value

    def stand_in(self, value: object) -> object | None:
        """Return what is sent in place of an object whose class the notebook may lack; None: the object itself."""
        return None

    def children(self, value: object) -> Children | None:
        """Return what a container of the framework holds; None for any other object."""
        return None

    def model_digest(self, value: object, path: str, offer_array: Any) -> str | None:
        """Return a digest, equal for models of the same variables with equal values; None for anything else.

        Args:
          value: Any object.
          path: The expression that reaches the value, for error texts.
          offer_array: The `offer_array` of the session's framework.

        Raises:
          ArrayError: A variable holds no values.
        """
        return None

    def model_glance(self, value: object) -> SeenArray | None:
        """Return the description of a model by its variables, without their values; None for anything else."""
        return None

    # Of values that are planned, in any process.

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """Return the shapes of a value's arrays, in its order; None for a value that is not of this framework.

        Raises:
          ArrayError: The value is of this framework, and has no arrays yet.
        """
        return None

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """Return the size of each axis of a mesh of the framework, in order; None for anything else."""
        return None

    def spec(self, value: Any) -> AskedSpec | None:
        """Return what a spec, layout or sharding of the framework asks; None for anything else."""
        return None

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """Return what a tree of specs, or a map of layouts, asks for the arrays of a value.

        Args:
          specs: Any object.
          arrays: The shapes of the value's arrays.
          value: The value; None where it is in another process.

        Returns:
          None for specs that are not of this framework.
        """
        return None

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """Return a slice's devices as an array in the shape of a mesh, and whether a dimension had to be split.

        Args:
          sizes: The sizes of the mesh's axes.
          devices: The devices, or stand-ins with their place and kind.

        Returns:
          None where the framework does not lay meshes over a network, or cannot lay this one.
        """
        return None
