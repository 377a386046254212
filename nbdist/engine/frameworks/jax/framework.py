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
    from nbdist.engine.agreement.comparer import Comparer
    from nbdist.engine.frameworks.process import Process
    from nbdist.engine.frameworks.shapes import ArrayShape, AskedLayout, AskedSpec
    from nbdist.engine.frameworks.stepping import Repairs
    from nbdist.engine.namespace.objects import Objects
    from nbdist.engine.namespace.placements import Placements
    from nbdist.engine.probe.library import Library
    from nbdist.engine.probe.observer import Observer
    from nbdist.engine.values.arrays import OfferedArray
    from nbdist.engine.values.incoming import Place
    from nbdist.engine.values.parts import Children

COMPILING_FILES = ("compiler.py", "interpreters/mlir.py", "interpreters/partial_eval.py")
"""Under `jax/_src`: XLA's compilation, lowering, tracing. Source: stacks sampled in jax 0.10.2."""

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
    """See `nbdist.engine.frameworks.framework.Framework`; modules are imported when a question needs them."""

    name = "jax"
    title = "JAX"
    packages: tuple[str, ...] = ("jax", "jaxlib")
    stage: Any = JaxStage

    def is_compiling(self, path: str, function: str) -> bool:
        """Whether a function of JAX traces, lowers or compiles."""
        source, _, tail = path.partition("/")
        known = tail in COMPILING_FILES or function in COMPILING_FUNCTIONS.get(tail, ())
        return source == "_src" and known

    def initialize(self, process: Process, stage: Any) -> Initialized:
        """See `nbdist.engine.frameworks.jax.start.initialize`."""
        from nbdist.engine.frameworks.jax.start import initialize

        return initialize(process, stage)

    def explain(self, process: Process, value: Any, expression: str) -> ArraysFound:
        """See `nbdist.engine.frameworks.jax.tree.explain`."""
        from nbdist.engine.frameworks.jax.tree import explain

        return explain(value, expression)

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """See `nbdist.engine.frameworks.jax.arrays.offer_array`."""
        from nbdist.engine.frameworks.jax.arrays import offer_array

        return offer_array(value, expression)

    def placed(self, sharding: Any, expression: str) -> Place:
        """See `nbdist.engine.frameworks.jax.arrays.placed`."""
        from nbdist.engine.frameworks.jax.arrays import placed

        return placed(sharding, expression)

    def nan(self, value: object, expression: str) -> NanCounts:
        """See `nbdist.engine.frameworks.jax.nan.count`."""
        from nbdist.engine.frameworks.jax.nan import count

        return count(value, expression)

    def program(
        self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
    ) -> ProgramFound:
        """See `nbdist.engine.frameworks.jax.program.program`."""
        from nbdist.engine.frameworks.jax.program import program

        return program(function, arguments, named, expression)

    def rescue(self, namespace: dict[str, object], process_id: int) -> Rescued | None:
        """See `nbdist.engine.frameworks.jax.rescue`."""
        from nbdist.engine.frameworks.jax.rescue import rescue

        return rescue(namespace, process_id)

    def store(self) -> Any | None:
        """That of JAX's coordinator."""
        from nbdist.engine.frameworks.jax.store import coordinator_client

        return coordinator_client()

    def refuse_saving(self) -> None:
        """Its arrays are saved by shard; see `nbdist.engine.saving`."""

    def keeps_its_own(self, value: Any) -> bool:
        """An object of Flax NNX."""
        from nbdist.engine.frameworks.jax.flax import is_module

        return is_module(type(value).__mro__)

    def state(self, value: Any) -> Any | None:
        """See `nbdist.engine.frameworks.jax.flax.state`."""
        from nbdist.engine.frameworks.jax.flax import state

        return state(value)

    def set_state(self, value: Any, state: Any) -> None:
        """See `nbdist.engine.frameworks.jax.flax.set_state`."""
        from nbdist.engine.frameworks.jax.flax import set_state

        set_state(value, state)

    def versions(self, process: Process) -> Versions:
        """See `nbdist.engine.frameworks.jax.versions.versions`."""
        from nbdist.engine.frameworks.jax.start import step_of
        from nbdist.engine.frameworks.jax.versions import versions

        return versions(process.shell.user_ns, step_of(process))

    def forget(
        self,
        process: Process,
        paths: Collection[str],
        unnamed: Collection[Origin],
        *,
        whole: bool = False,
    ) -> list[str]:
        """See `nbdist.engine.frameworks.jax.versions.forget`."""
        from nbdist.engine.frameworks.jax.start import step_or_new
        from nbdist.engine.frameworks.jax.versions import forget

        names, step = process.shell.user_ns, step_or_new(process)
        return forget(names, step, paths=paths, unnamed=unnamed, whole=whole)

    def repair(self, process: Process) -> Repairs:
        """A repair of this process that has just begun."""
        from nbdist.engine.frameworks.jax.repair.repair import Repair
        from nbdist.engine.frameworks.jax.start import step_of

        return Repair(process.shell.user_ns, folder=process.folder, step=step_of(process))

    def placements(self, process: Process, *, processes: int | None = None) -> Placements:
        """See `nbdist.engine.frameworks.jax.placements`, and for another number `.resized`."""
        from nbdist.engine.frameworks.jax.placements import Placements
        from nbdist.engine.frameworks.jax.resized import Resized
        from nbdist.engine.frameworks.jax.start import step_or_new

        step = step_or_new(process)
        if processes is None:
            return Placements(process.shell.user_ns, step)
        return Resized(process.shell.user_ns, step, processes)

    def objects(self, process_id: int) -> Objects | None:
        """See `nbdist.engine.frameworks.jax.objects.Objects`."""
        from nbdist.engine.frameworks.jax.objects import Objects

        return Objects()

    def holds(self) -> str | None:
        """The platform of the back end that is up."""
        from nbdist.engine.frameworks.jax.backend import backend

        client = backend()
        return None if client is None else str(client.platform)

    def joined(self) -> Membership | None:
        """See `nbdist.engine.frameworks.jax.joined.joined`."""
        from nbdist.engine.frameworks.jax.joined import joined

        return joined()

    def devices(self) -> UsedDevices | None:
        """Those of the back end that is up."""
        from nbdist.engine.frameworks.jax.joined import devices

        return devices()

    def is_up(self) -> bool:
        """Whether a back end is up."""
        from nbdist.engine.frameworks.jax.backend import ready

        return ready()

    def configure(self, environment: Mapping[str, str]) -> list[str]:
        """See `nbdist.engine.frameworks.jax.joined.configure`."""
        from nbdist.engine.frameworks.jax.joined import configure

        return configure(environment)

    def install(self, shell: Any) -> None:
        """Has cells that end in an array on several processes show what is in it."""
        from nbdist.engine.frameworks.jax.summary import install

        install(shell)

    def library(self) -> Library | None:
        """Flax's containers, and pytrees."""
        from nbdist.engine.frameworks.jax.library import Library

        return Library()

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """What looks at devices, meshes and arrays."""
        from nbdist.engine.frameworks.jax.observe import Observer

        return Observer(main_thread)

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """As `explain`, of a tree of arrays of JAX; None for what holds none."""
        from nbdist.engine.frameworks.jax.tree import tree

        return tree(value, expression)

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """See `nbdist.engine.frameworks.jax.summary.at_path`."""
        from nbdist.engine.frameworks.jax.summary import at_path

        return at_path(namespace, path)

    def comparer(self) -> Comparer | None:
        """What compares arrays, keys, settings and the mesh in context."""
        from nbdist.engine.frameworks.jax.comparer import Comparer

        return Comparer()

    def unwrapped(self, value: Any) -> Any:
        """The array that a variable of Flax NNX stands for; within a tree it stays what it is."""
        from nbdist.engine.frameworks.jax.flax import unwrapped

        return unwrapped(value)

    def stand_in(self, value: object) -> object | None:
        """The state of a module of Flax NNX."""
        from nbdist.engine.frameworks.jax.flax import state_of_module

        return state_of_module(value)

    def children(self, value: object) -> Children | None:
        """What a container of Flax or another pytree holds."""
        from nbdist.engine.frameworks.jax.library import children

        return children(value)

    def is_imported(self) -> bool:
        """Whether `import jax` has been begun; `jaxlib` alone has no arrays."""
        return "jax" in sys.modules

    # -- of values that are planned, in any process -----------------------------------------------

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """The arrays of any pytree."""
        from nbdist.engine.frameworks.jax.shapes import shapes

        return shapes(value)

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """See `nbdist.engine.frameworks.jax.shapes.mesh_axes`."""
        from nbdist.engine.frameworks.jax.shapes import mesh_axes

        return mesh_axes(value)

    def spec(self, value: Any) -> AskedSpec | None:
        """See `nbdist.engine.frameworks.jax.shapes.spec`."""
        from nbdist.engine.frameworks.jax.shapes import spec

        return spec(value)

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """See `nbdist.engine.frameworks.jax.shapes.layout`."""
        from nbdist.engine.frameworks.jax.shapes import layout

        return layout(specs, arrays)

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """See `nbdist.engine.frameworks.jax.torus.mesh_over`."""
        from nbdist.engine.frameworks.jax.torus import mesh_over

        return mesh_over(sizes, devices)


FRAMEWORK = Jax()
