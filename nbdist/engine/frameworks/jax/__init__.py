"""JAX on an engine: its capabilities; the modules of this folder are imported when one is asked for.

In come the questions and orders of the engine, as calls of the capabilities of `FRAMEWORK`: start JAX, describe
or summarize what is there, read arrays and make them, keep in step, repair. Out go answers as types of
`nbdist.contract`, and objects behind an interface, such as an observer, a comparer or a repair.

Read first `FRAMEWORK`, which names the module that answers each question; then `start.py`, how a process joins
the others; then `describe.py`, how arrays, meshes and shardings become descriptions. `step/` counts programs and
proves that processes are in step; `repair/` makes a back end anew in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import JaxStage
from nbdist.engine.frameworks import Beside, Framework

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


def _install(shell: Any) -> None:
    """Make cells that end in an array on several processes show its values."""
    shell.display_formatter.mimebundle_formatter.for_type_by_name("jax", "Array", _shown)


def _shown(array: Any, **_: Any) -> dict[str, Any] | None:
    from nbdist.engine.frameworks.jax.arrays import shown

    return shown(array)


BESIDE = Beside(__name__)

FRAMEWORK = Framework(
    name="jax",
    title="JAX",
    # `jaxlib` alone has no arrays: it does not count as an import of JAX.
    packages=("jax", "jaxlib"),
    is_compiling=is_compiling,
    stage=JaxStage,
    initialize=BESIDE.function("start", "initialize"),
    cluster=BESIDE.module("start"),
    store=BESIDE.function("private", "coordinator_client"),
    arrays=BESIDE.module("arrays"),
    inspection=BESIDE.module("inspection"),
    recovery=BESIDE.function("repair.repair", "JaxRecovery"),
    placements=BESIDE.function("resized", "placing"),
    install=_install,
    holds=BESIDE.function("describe", "platform"),
    trees=BESIDE.module("inspection"),
    library=BESIDE.function("objects", "JaxLibrary"),
    observer=lambda main_thread, _: BESIDE.function("observe", "JaxObserver")(main_thread),
    comparer=BESIDE.function("observe", "JaxComparer"),
    parts=BESIDE.function("objects", "JaxParts"),
    objects=lambda _: BESIDE.function("objects", "JaxObjects")(),
    keeper=BESIDE.module("objects"),
    plans=BESIDE.module("inspection"),
    mesh_over=BESIDE.function("inspection", "mesh_over"),
)

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import (
        Arrays,
        ClusterState,
        Inspection,
        Placing,
        Plans,
        Trees,
    )
    from nbdist.engine.frameworks.jax import arrays, inspection, objects, resized, start
    from nbdist.engine.saving.parts import Keeper

    # A name is not looked up by a type checker: these modules are what the fields above are to have.
    CHECKED: tuple[ClusterState, Arrays, Inspection, Trees, Plans, Keeper, Placing]
    CHECKED = (start, arrays, inspection, inspection, inspection, objects, resized.placing)
