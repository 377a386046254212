"""JAX on an engine: its capabilities; the modules of this folder are imported when one is asked for.

In come the questions and orders of the engine, as calls of the capabilities of `FRAMEWORK`: start JAX, describe
or summarize what is there, read arrays and make them, keep in step, repair. Out go answers as types of
`nbdist.contract`, and objects behind an interface, such as an observer, a comparer or a repair.

Read first `FRAMEWORK`, which names the module that answers each question; then `start.py`, how a process joins
the others; then `describe.py`, how arrays, meshes and shardings become descriptions. `step/` counts programs and
proves that processes are in step; `repair/` makes a back end anew in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import JaxStage
from nbdist.engine.frameworks.framework import Framework

if TYPE_CHECKING:
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.agreement.facts import Comparer
    from nbdist.engine.frameworks.interfaces import (
        Arrays,
        ClusterState,
        Inspection,
        Plans,
        Recovery,
        ThisProcess,
        Trees,
    )
    from nbdist.engine.namespace.things import Objects, Placements
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.probe.observer import Observer
    from nbdist.engine.saving.parts import Keeper
    from nbdist.engine.values.arrays import Parts

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


def is_compiling(path: str, function: str) -> bool:
    """Return whether a function of JAX traces, lowers or compiles."""
    source, _, tail = path.partition("/")
    known = tail in COMPILING_FILES or function in COMPILING_FUNCTIONS.get(tail, ())
    return source == "_src" and known


def _initialize(process: ThisProcess, stage: Any) -> Initialized:
    from nbdist.engine.frameworks.jax.start import initialize

    return initialize(process, stage)


def _cluster() -> ClusterState:
    from nbdist.engine.frameworks.jax import start

    return start


def _store() -> Any | None:
    from nbdist.engine.frameworks.jax.private import coordinator_client

    return coordinator_client()


def _arrays() -> Arrays:
    from nbdist.engine.frameworks.jax import arrays

    return arrays


def _inspection() -> Inspection:
    from nbdist.engine.frameworks.jax import inspection

    return inspection


def _trees() -> Trees:
    from nbdist.engine.frameworks.jax import inspection

    return inspection


def _recovery() -> Recovery:
    from nbdist.engine.frameworks.jax.repair.repair import JaxRecovery

    return JaxRecovery()


def _placements(process: ThisProcess, *, processes: int | None = None) -> Placements:
    from nbdist.engine.frameworks.jax.placements import JaxPlacements
    from nbdist.engine.frameworks.jax.resized import JaxResized
    from nbdist.engine.frameworks.jax.start import step_or_new

    step = step_or_new(process)
    if processes is None:
        return JaxPlacements(process.shell.user_ns, step)
    return JaxResized(process.shell.user_ns, step, processes)


def _install(shell: Any) -> None:
    """Make cells that end in an array on several processes show its values."""
    shell.display_formatter.mimebundle_formatter.for_type_by_name("jax", "Array", _shown)


def _shown(array: Any, **_: Any) -> dict[str, Any] | None:
    from nbdist.engine.frameworks.jax.arrays import shown

    return shown(array)


def _holds() -> str | None:
    from nbdist.engine.frameworks.jax.describe import backend

    client = backend()
    return None if client is None else str(client.platform)


def _library() -> Library:
    from nbdist.engine.frameworks.jax.objects import JaxLibrary

    return JaxLibrary()


def _observer(main_thread: int, process_id: int) -> Observer:
    from nbdist.engine.frameworks.jax.observe import JaxObserver

    return JaxObserver(main_thread)


def _comparer() -> Comparer:
    from nbdist.engine.frameworks.jax.comparer import JaxComparer

    return JaxComparer()


def _parts() -> Parts:
    from nbdist.engine.frameworks.jax.objects import JaxParts

    return JaxParts()


def _objects(process_id: int) -> Objects:
    from nbdist.engine.frameworks.jax.objects import JaxObjects

    return JaxObjects()


def _keeper() -> Keeper:
    from nbdist.engine.frameworks.jax import objects

    return objects


def _plans() -> Plans:
    from nbdist.engine.frameworks.jax import inspection

    return inspection


def _mesh_over(sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
    from nbdist.engine.frameworks.jax.inspection import mesh_over

    return mesh_over(sizes, devices)


FRAMEWORK = Framework(
    name="jax",
    title="JAX",
    # `jaxlib` alone has no arrays: it does not count as an import of JAX.
    packages=("jax", "jaxlib"),
    is_compiling=is_compiling,
    stage=JaxStage,
    initialize=_initialize,
    cluster=_cluster,
    store=_store,
    arrays=_arrays,
    inspection=_inspection,
    recovery=_recovery,
    placements=_placements,
    install=_install,
    holds=_holds,
    trees=_trees,
    library=_library,
    observer=_observer,
    comparer=_comparer,
    parts=_parts,
    objects=_objects,
    keeper=_keeper,
    plans=_plans,
    mesh_over=_mesh_over,
)
