"""Keras on an engine: JAX's capabilities, since its arrays belong to its back end, and its own around them.

The back end is JAX for all work on several processes. What is asked of each imported framework (devices, trees,
pictures of arrays) JAX answers for itself, so Keras has only models to answer for.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import KerasStage
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.frameworks.jax import FRAMEWORK as JAX
from nbdist.engine.frameworks.keras.expressions import PACKAGES

if TYPE_CHECKING:
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.agreement.facts import Comparer
    from nbdist.engine.frameworks.interfaces import Plans, ThisProcess
    from nbdist.engine.namespace.things import Objects, Placements
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.probe.observer import ModelObserver
    from nbdist.engine.probe.samples import SeenArray
    from nbdist.engine.saving.parts import Keeper
    from nbdist.engine.values.arrays import Parts

GUARDS = PurePath(__file__).parent / "guards"


def _initialize(process: ThisProcess, stage: Any) -> Initialized:
    from nbdist.engine.frameworks.keras.start import initialize

    return initialize(process, stage)


def _placements(process: ThisProcess, *, processes: int | None = None) -> Placements:
    from nbdist.engine.frameworks.jax.start import step_or_new
    from nbdist.engine.frameworks.keras.distribution import KerasPlacements, KerasResized

    step = step_or_new(process)
    if processes is None:
        return KerasPlacements(process.shell.user_ns, step)
    return KerasResized(process.shell.user_ns, step, processes)


def _library() -> Library:
    from nbdist.engine.frameworks.keras.variables import VariablePlaces

    return VariablePlaces()


def _model_observer(main_thread: int, library: Library) -> ModelObserver:
    from nbdist.engine.frameworks.keras.observe import KerasObserver
    from nbdist.engine.frameworks.keras.variables import VariablePlaces

    assert isinstance(library, VariablePlaces)
    return KerasObserver(main_thread, library)


def _model_glance(value: object) -> SeenArray | None:
    from nbdist.engine.frameworks.keras.objects import model_glance

    return model_glance(value)


def _comparer() -> Comparer:
    from nbdist.engine.frameworks.keras.distribution import KerasComparer

    return KerasComparer()


def _parts() -> Parts:
    from nbdist.engine.frameworks.keras.objects import KerasParts

    return KerasParts()


def _objects(process_id: int) -> Objects | None:
    """Return how Keras 3's objects go to a new process; None if only Keras 2 for TensorFlow is imported."""
    if "keras" not in sys.modules:
        return None
    from nbdist.engine.frameworks.keras.objects import KerasObjects

    return KerasObjects(process_id)


def _keeper() -> Keeper:
    from nbdist.engine.frameworks.keras import objects

    return objects


def _plans() -> Plans:
    from nbdist.engine.frameworks.keras import distribution

    return distribution


FRAMEWORK = Framework(
    name="keras",
    title="Keras",
    packages=PACKAGES,
    imported_as=PACKAGES,
    builds_on="jax",
    waits={
        (str(GUARDS / "agreement.py"), "_wait"): "agreement",
        (str(GUARDS / "wrappers.py"), "until_ready"): "framework",
    },
    stage=KerasStage,
    initialize=_initialize,
    cluster=JAX.cluster,
    store=JAX.store,
    arrays=JAX.arrays,
    inspection=JAX.inspection,
    recovery=JAX.recovery,
    placements=_placements,
    library=_library,
    model_observer=_model_observer,
    model_glance=_model_glance,
    comparer=_comparer,
    parts=_parts,
    objects=_objects,
    keeper=_keeper,
    plans=_plans,
)
