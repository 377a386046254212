"""JAX on an engine."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.stages import JaxStage
from nbdist.engine.frameworks.framework import Framework

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
    from nbdist.engine.probe.observer import Observer
    from nbdist.engine.values.arrays import Children, OfferedArray
    from nbdist.engine.values.incoming import Place

COMPILING_FILES = ("compiler.py", "interpreters/mlir.py", "interpreters/partial_eval.py")
"""Files under `jax/_src` that compile, lower and trace. Source: stacks sampled in jax 0.10.2."""

COMPILING_FUNCTIONS = {
    "pjit.py": {"_trace_for_jit", "_infer_params", "_resolve_and_lower"},
    "interpreters/pxla.py": {
        "lower_sharding_computation",
        "_cached_lowering_to_hlo",
        "_cached_compilation",
        "from_hlo",
        "compile",
    },
}


class Jax(Framework):
    """JAX on an engine; the modules beside this one are imported when a question needs them."""

    name = "jax"
    title = "JAX"
    packages: tuple[str, ...] = ("jax", "jaxlib")
    stage: Any = JaxStage

    def is_compiling(self, path: str, function: str) -> bool:
        """Return whether a function of JAX traces, lowers or compiles."""
        source, _, tail = path.partition("/")
        known = tail in COMPILING_FILES or function in COMPILING_FUNCTIONS.get(tail, ())
        return source == "_src" and known

    def initialize(self, process: ThisProcess, stage: Any) -> Initialized:
        """Join JAX's cluster and start the back end."""
        from nbdist.engine.frameworks.jax.start import initialize

        return initialize(process, stage)

    def explain(self, process: ThisProcess, value: Any, expression: str) -> ArraysFound:
        """Return where the pieces of an array lie, or of all arrays of a tree."""
        from nbdist.engine.frameworks.jax.summary import explain

        return explain(value, expression)

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """Return this process's pieces of a JAX array; None for anything else."""
        from nbdist.engine.frameworks.jax.arrays import offer_array

        return offer_array(value, expression)

    def placed(self, sharding: Any, expression: str) -> Place:
        """Return how arrays are made from pieces under a sharding of JAX."""
        from nbdist.engine.frameworks.jax.arrays import placed

        return placed(sharding, expression)

    def nan(self, value: object, expression: str) -> NanCounts:
        """Count NaN and infinite values in this process's pieces of a tree."""
        from nbdist.engine.frameworks.jax.summary import count

        return count(value, expression)

    def program(
        self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
    ) -> ProgramFound:
        """Return the program that a call of a jitted function would run."""
        from nbdist.engine.frameworks.jax.shapes import program

        return program(function, arguments, named, expression)

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """Write the named arrays of this process to a file."""
        from nbdist.engine.frameworks.jax.arrays import rescue

        return rescue(namespace, process_id)

    def store(self) -> Any | None:
        """Return the key-value store of JAX's coordinator."""
        from nbdist.engine.frameworks.jax.step.made import coordinator_client

        return coordinator_client()

    def refuse_saving(self) -> None:
        """Refuse nothing: JAX arrays are saved by shard; see `nbdist.engine.saving`."""

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether a value is an object of Flax NNX."""
        from nbdist.engine.frameworks.jax.objects import is_module

        return is_module(type(value).__mro__)

    def state(self, value: Any) -> Any | None:
        """Return the state of an object of Flax NNX."""
        from nbdist.engine.frameworks.jax.objects import state

        return state(value)

    def set_state(self, value: Any, state: Any) -> None:
        """Give an object of Flax NNX the arrays of a state."""
        from nbdist.engine.frameworks.jax.objects import set_state

        set_state(value, state)

    def versions(self, process: ThisProcess) -> Versions:
        """Return which program computed each array on several processes."""
        from nbdist.engine.frameworks.jax.start import step_of
        from nbdist.engine.frameworks.jax.versions import versions

        return versions(process.shell.user_ns, step_of(process))

    def forget(
        self,
        process: ThisProcess,
        paths: Collection[str],
        unnamed: Collection[Origin],
        *,
        whole: bool = False,
    ) -> list[str]:
        """Make arrays unusable whose pieces do not belong together; return which other paths led to them."""
        from nbdist.engine.frameworks.jax.start import step_or_new
        from nbdist.engine.frameworks.jax.versions import forget

        names, step = process.shell.user_ns, step_or_new(process)
        return forget(names, step, paths=paths, unnamed=unnamed, whole=whole)

    def repair(self, process: ThisProcess) -> Repairs:
        """Return a repair of this process that has just begun."""
        from nbdist.engine.frameworks.jax.repair.repair import Repair
        from nbdist.engine.frameworks.jax.start import step_of

        return Repair(process.shell.user_ns, folder=process.folder, step=step_of(process))

    def placements(self, process: ThisProcess, *, processes: int | None = None) -> Placements:
        """Return the placements of arrays; those of `resized` if the number of processes changes."""
        from nbdist.engine.frameworks.jax.placements import JaxPlacements
        from nbdist.engine.frameworks.jax.resized import JaxResized
        from nbdist.engine.frameworks.jax.start import step_or_new

        step = step_or_new(process)
        if processes is None:
            return JaxPlacements(process.shell.user_ns, step)
        return JaxResized(process.shell.user_ns, step, processes)

    def objects(self, process_id: int) -> Objects | None:
        """Return how jitted functions and registrations of JAX go to a new process."""
        from nbdist.engine.frameworks.jax.objects import JaxObjects

        return JaxObjects()

    def holds(self) -> str | None:
        """Return the platform of the back end that is up; None if none is."""
        from nbdist.engine.frameworks.jax.describe import backend

        client = backend()
        return None if client is None else str(client.platform)

    def joined(self) -> Membership | None:
        """Return the place of this process in a cluster of JAX; None if it is in none."""
        from nbdist.engine.frameworks.jax.start import joined

        return joined()

    def devices(self) -> UsedDevices | None:
        """Return the devices of the back end that is up; None if none is."""
        from nbdist.engine.frameworks.jax.start import devices

        return devices()

    def is_up(self) -> bool:
        """Return whether a back end is up."""
        from nbdist.engine.frameworks.jax.describe import ready

        return ready()

    def configure(self, environment: Mapping[str, str]) -> list[str]:
        """Set environment variables in JAX's configuration; return the names of those it cannot take."""
        from nbdist.engine.frameworks.jax.start import configure

        return configure(environment)

    def install(self, shell: Any) -> None:
        """Make cells that end in an array on several processes show its values."""
        from nbdist.engine.frameworks.jax.summary import install

        install(shell)

    def library(self) -> Library | None:
        """Return the library of Flax's containers and of pytrees."""
        from nbdist.engine.frameworks.jax.objects import JaxLibrary

        return JaxLibrary()

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """Return an observer of JAX's devices, meshes and arrays."""
        from nbdist.engine.frameworks.jax.observe import JaxObserver

        return JaxObserver(main_thread)

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """Return the answer of `explain` for a tree of JAX arrays; None if it holds none."""
        from nbdist.engine.frameworks.jax.summary import tree

        return tree(value, expression)

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """Return this process's part of a summary of the array under a path."""
        from nbdist.engine.frameworks.jax.summary import at_path

        return at_path(namespace, path)

    def comparer(self) -> Comparer | None:
        """Return a comparer of arrays, keys, settings and the mesh in context."""
        from nbdist.engine.frameworks.jax.comparer import JaxComparer

        return JaxComparer()

    def unwrapped(self, value: Any) -> Any:
        """Return the array that a variable of Flax NNX stands for; inside a tree a variable stays what it is."""
        from nbdist.engine.frameworks.jax.objects import unwrapped

        return unwrapped(value)

    def stand_in(self, value: object) -> object | None:
        """Return the state of a module of Flax NNX; None for any other object."""
        from nbdist.engine.frameworks.jax.objects import state_of_module

        return state_of_module(value)

    def children(self, value: object) -> Children | None:
        """Return the children of a container of Flax or of another pytree."""
        from nbdist.engine.frameworks.jax.objects import children

        return children(value)

    def is_imported(self) -> bool:
        """Return whether `import jax` has begun; `jaxlib` alone has no arrays."""
        return "jax" in sys.modules

    # -- of values that are planned, in any process -----------------------------------------------

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """Return the arrays of any pytree."""
        from nbdist.engine.frameworks.jax.shapes import shapes

        return shapes(value)

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """Return the sizes of the axes of a JAX mesh by name."""
        from nbdist.engine.frameworks.jax.shapes import mesh_axes

        return mesh_axes(value)

    def spec(self, value: Any) -> AskedSpec | None:
        """Return the spec of a `PartitionSpec` or a `NamedSharding`."""
        from nbdist.engine.frameworks.jax.shapes import spec

        return spec(value)

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """Return the spec that a tree of specs gives each array of a value."""
        from nbdist.engine.frameworks.jax.shapes import layout

        return layout(specs, arrays)

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """Return the devices of a slice in the shape of a mesh, and whether a dimension had to be split."""
        from nbdist.engine.frameworks.jax.shapes import mesh_over

        return mesh_over(sizes, devices)


FRAMEWORK = Jax()
