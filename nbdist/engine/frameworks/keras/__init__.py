"""Keras on an engine: its start through its back end, the capabilities of JAX, and its own around these.

The back end is JAX for all work on several processes. Devices, trees and summaries of arrays are asked of each
imported framework, and JAX answers for itself. So Keras answers for its models only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import Initialized, KerasStage
from nbdist.engine.frameworks import Beside, Framework
from nbdist.engine.frameworks.jax import FRAMEWORK as JAX
from nbdist.engine.frameworks.keras.expressions import PACKAGES
from nbdist.errors import SessionError
from nbdist.spelling import option

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import ThisProcess
    from nbdist.engine.namespace.things import Objects

GUARDS = PurePath(__file__).parent / "guards"


def _initialize(process: ThisProcess, stage: KerasStage) -> Initialized:
    """Join the cluster by `keras.distribution.initialize`; start nothing where the user is to call that.

    Returns:
      The same as `nbdist.engine.frameworks.jax.start.initialize`.

    Raises:
      SessionError: Keras is not installed, has another back end already, or has one that joins no processes.
      RuntimeError: The framework's own, for example when a back end is already up.
    """
    from nbdist.engine.frameworks.jax.start import (
        after_users_call,
        explain_second_call,
        stay_in_step,
    )
    from nbdist.engine.frameworks.jax.step.cut import listening_ports
    from nbdist.engine.frameworks.keras.guards import install

    backend, arguments = stage.backend, stage.arguments
    keras = imported(backend, process.process_id, process.host)
    if backend == "jax":
        _prepare_jax(stage.devices, stage.gloo)
    version = version_text(keras)
    if arguments is None:
        if backend == "jax":
            after_users_call(keras.distribution, functools.partial(install, process))
        return Initialized(version=version)
    if arguments.num_processes == 1 and not joins(backend):
        return Initialized(version=version, process_id=0, said=nothing_sharded(keras))
    if not joins(backend):
        raise SessionError(
            f"keras.distribution of Keras {keras.__version__} joins no processes on the {backend} back end: "
            f"{arguments.num_processes} processes would each train alone. Use "
            f"{option('backend', 'jax')}, {option('framework', 'tensorflow')} for tf.distribute, or "
            f"{option('initialize', False)} for processes that are not joined."
        )
    before = listening_ports()
    if stage.late:
        # A seed of any value, for now: without one, Keras would run a computation of all processes to agree on a
        # seed.
        keras.utils.set_random_seed(0)
    with added_to_jax(stage.jax if backend == "jax" else {}):
        keras.distribution.initialize(
            job_addresses=arguments.job_addresses,
            num_processes=arguments.num_processes,
            process_id=arguments.process_id,
        )
    explain_second_call(keras.distribution)
    if arguments.num_processes > 1 and backend == "jax":
        install(process)
    names = keras.distribution.list_devices()
    return Initialized(
        version=version,
        process_id=arguments.process_id,
        everywhere=len(names),
        platform=names[0].partition(":")[0],
        ports=stay_in_step(process, before, processes=arguments.num_processes),
    )


def imported(backend: str, process_id: int, host: str) -> ModuleType:
    """Import Keras with the back end that was asked for, and return it.

    Raises:
      SessionError: Keras has been imported with another back end, or is not installed.
    """
    try:
        keras = importlib.import_module("keras")
    except ImportError as error:
        raise SessionError(
            f"process {process_id} (host {host}) cannot import keras on the {backend} back end: {error}. "
            f"On {host} run: pip install 'nbdist[keras]'"
        ) from error
    found = keras.backend.backend()
    if found != backend:
        raise SessionError(
            f"On process {process_id} (host {host}) Keras was imported with the {found} back end, and {backend} "
            f"is asked for (KERAS_BACKEND={os.environ.get('KERAS_BACKEND', '')}). Something imports Keras while "
            "Python starts, such as a sitecustomize module or an IPython startup file: remove that, or use "
            f"{option('backend', found)}."
        )
    return keras


def joins(backend: str) -> bool:
    """Return whether the installed Keras can join processes on a back end; if it does not say, JAX alone can."""
    from nbdist.engine.frameworks.keras import private

    library = private.back_end_library(backend, imported=False)
    return backend == "jax" if library is None else hasattr(library, "initialize")


def nothing_sharded(keras: ModuleType) -> str:
    """Return the warning for a back end on which a distribution can be set and has no effect."""
    return (
        f"keras.distribution of Keras {keras.__version__} shards nothing on the "
        f"{keras.backend.backend()} back end: "
        "with DataParallel or ModelParallel set, every variable stays whole. Use "
        f"{option('backend', 'jax')}, or {option('framework', 'tensorflow')} for tf.distribute."
    )


def version_text(keras: ModuleType) -> str:
    """Return the versions of Keras and its back end, such as `3.15.1 on jax 0.10.2`."""
    backend = keras.backend.backend()
    return f"{keras.__version__} on {backend} {importlib.import_module(backend).__version__}"


def _prepare_jax(devices: int | None, gloo: str | None) -> None:
    import jax

    from nbdist.engine.frameworks.jax.start import (
        allow_going_on,
        explain_late_devices,
        keep_gloo_on,
        place,
    )

    place()
    if gloo is not None:
        keep_gloo_on(gloo)
    if devices is not None:
        jax.config.update("jax_num_cpu_devices", devices)
    explain_late_devices(jax.config)
    allow_going_on()


@contextlib.contextmanager
def added_to_jax(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add these arguments to each call of `jax.distributed.initialize` inside the context.

    Keras passes only three arguments on. Without the others, JAX would look for a Slurm or MPI cluster in stray
    environment variables, and heartbeat and timeout could not be chosen.
    """
    import jax

    from nbdist.engine.frameworks.jax.repair.backend import leaves_without_asking

    original = jax.distributed.initialize

    def initialize(*args: Any, **given: Any) -> None:
        with leaves_without_asking():
            original(*args, **{**given, **arguments})

    jax.distributed.initialize = initialize
    try:
        yield
    finally:
        jax.distributed.initialize = original


def _objects(process_id: int) -> Objects | None:
    """Return how Keras 3's objects go to a new process; None if only Keras 2 for TensorFlow is imported."""
    if "keras" not in sys.modules:
        return None
    from nbdist.engine.frameworks.keras.objects import KerasObjects

    return KerasObjects(process_id)


BESIDE = Beside(__name__)

FRAMEWORK = Framework(
    name="keras",
    title="Keras",
    packages=PACKAGES,
    imported_as=PACKAGES,
    builds_on="jax",
    waits={
        (str(GUARDS / "agreement.py"), "_wait"): "agreement",
        (str(GUARDS / "__init__.py"), "until_ready"): "framework",
    },
    stage=KerasStage,
    initialize=_initialize,
    cluster=JAX.cluster,
    store=JAX.store,
    arrays=JAX.arrays,
    inspection=JAX.inspection,
    recovery=JAX.recovery,
    placements=BESIDE.function("distribution", "placing"),
    library=BESIDE.function("objects", "VariablePlaces"),
    model_observer=BESIDE.function("observe", "KerasObserver"),
    model_glance=BESIDE.function("objects", "model_glance"),
    comparer=BESIDE.function("distribution", "KerasComparer"),
    parts=BESIDE.function("objects", "KerasParts"),
    objects=_objects,
    keeper=BESIDE.module("objects"),
    plans=BESIDE.module("distribution"),
)

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import Placing, Plans
    from nbdist.engine.frameworks.keras import distribution, objects
    from nbdist.engine.saving.parts import Keeper

    # A name is not looked up by a type checker: these modules are what the fields above are to have.
    CHECKED: tuple[Keeper, Plans, Placing] = (objects, distribution, distribution.placing)
