"""Keras on an engine; its arrays belong to its back end, which is JAX for all work on several processes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbdist.contract.stages import KerasStage
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.frameworks.jax.framework import Jax
from nbdist.engine.frameworks.keras.expressions import PACKAGES

if TYPE_CHECKING:
    from nbdist.contract.calls.arrays import ArraysFound, Summary
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.agreement.facts import Comparer
    from nbdist.engine.frameworks.interfaces import ArrayShape, AskedLayout, AskedSpec, ThisProcess
    from nbdist.engine.namespace.placements import Objects, Placements
    from nbdist.engine.probe.classes import Library
    from nbdist.engine.probe.observer import ModelObserver, Observer
    from nbdist.engine.probe.samples import SeenArray
    from nbdist.engine.values.arrays import Children, OfferArray

GUARDS = PurePath(__file__).parent / "guards"


class Keras(Jax):
    """Keras as a framework; all methods that are not defined here are those of JAX."""

    name = "keras"
    title = "Keras"
    packages = PACKAGES
    stage = KerasStage
    builds_on = "jax"
    waits: Mapping[tuple[str, str], str] = MappingProxyType(
        {
            (str(GUARDS / "agreement.py"), "_wait"): "agreement",
            (str(GUARDS / "wrappers.py"), "until_ready"): "framework",
        }
    )

    def is_imported(self) -> bool:
        """Return whether this process has imported Keras, or Keras 2 for TensorFlow."""
        return Framework.is_imported(self)

    def is_compiling(self, path: str, function: str) -> bool:
        """Return False: Keras itself compiles nothing; its back end does."""
        return False

    def initialize(self, process: ThisProcess, stage: Any) -> Initialized:
        """Join the cluster by `keras.distribution.initialize`."""
        from nbdist.engine.frameworks.keras.start import initialize

        return initialize(process, stage)

    def holds(self) -> str | None:
        """Return None: the back end holds the devices, and answers for them."""
        return None

    def install(self, shell: Any) -> None:
        """Do nothing: the framework that an array belongs to shows it."""

    def library(self) -> Library | None:
        """Return the library of layers, models, optimizers and variables."""
        from nbdist.engine.frameworks.keras.variables import VariablePlaces

        return VariablePlaces()

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """Return None: the framework that an array belongs to observes it."""
        return None

    def model_observer(self, main_thread: int, library: Library) -> ModelObserver | None:
        """Return the observer of models and of the distribution that is set."""
        from nbdist.engine.frameworks.keras.observe import KerasObserver
        from nbdist.engine.frameworks.keras.variables import VariablePlaces

        assert isinstance(library, VariablePlaces)
        return KerasObserver(main_thread, library)

    def objects(self, process_id: int) -> Objects | None:
        """Return how Keras 3's objects go to a new process; None if only Keras 2 for TensorFlow is imported."""
        if "keras" not in sys.modules:
            return None
        from nbdist.engine.frameworks.keras.objects import KerasObjects

        return KerasObjects(process_id)

    def placements(self, process: ThisProcess, *, processes: int | None = None) -> Placements:
        """Return JAX's placements, with Keras' device meshes added."""
        from nbdist.engine.frameworks.jax.start import step_or_new
        from nbdist.engine.frameworks.keras.distribution import KerasPlacements, KerasResized

        step = step_or_new(process)
        if processes is None:
            return KerasPlacements(process.shell.user_ns, step)
        return KerasResized(process.shell.user_ns, step, processes)

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """Return None: the framework that the arrays belong to answers for a tree."""
        return None

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """Return None: the framework that an array belongs to summarizes it."""
        return None

    def keeps_its_own(self, value: Any) -> bool:
        """Return whether this is an object of one of Keras' classes, or of a class derived from one."""
        from nbdist.engine.frameworks.keras.objects import keeps_its_own

        return keeps_its_own(value)

    def state(self, value: Any) -> Any | None:
        """Return the arrays of a model, layer, optimizer or variable; None for anything else."""
        from nbdist.engine.frameworks.keras.objects import state

        return state(value)

    def set_state(self, value: Any, state: Any) -> None:
        """Set the arrays of a model, layer, optimizer or variable to others of the same shapes and dtypes."""
        from nbdist.engine.frameworks.keras.objects import set_state

        set_state(value, state)

    def comparer(self) -> Comparer | None:
        """Return the comparer of the distribution that is set."""
        from nbdist.engine.frameworks.keras.distribution import KerasComparer

        return KerasComparer()

    def unwrapped(self, value: Any) -> Any:
        """Return the array that a variable of Keras holds; anything else as it is."""
        from nbdist.engine.frameworks.keras.variables import unwrapped

        return unwrapped(value)

    def array_of(self, value: Any) -> Any:
        """Return the array that a variable of Keras holds; anything else as it is."""
        return self.unwrapped(value)

    def stand_in(self, value: object) -> object | None:
        """Return None: models are pickled in Keras' own way."""
        return None

    def children(self, value: object) -> Children | None:
        """Return None: models are compared as a whole."""
        return None

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        """Return a digest of a model, layer or optimizer, equal for equal variables; None for anything else."""
        from nbdist.engine.frameworks.keras.objects import model_digest

        return model_digest(value, path, offer_array)

    def model_glance(self, value: object) -> SeenArray | None:
        """Return a description of a model, layer or optimizer without values; None for anything else."""
        from nbdist.engine.frameworks.keras.objects import model_glance

        return model_glance(value)

    # Of values that are planned, in any process.

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """Return the shapes of the variables of a layer, model or optimizer; None for anything else."""
        from nbdist.engine.frameworks.keras.shapes import shapes

        return shapes(value)

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """Return the axes of a `keras.distribution.DeviceMesh`; None for anything else."""
        from nbdist.engine.frameworks.keras.shapes import mesh_axes

        return mesh_axes(value)

    def spec(self, value: Any) -> AskedSpec | None:
        """Return what a `keras.distribution.TensorLayout` asks; None for anything else."""
        from nbdist.engine.frameworks.keras.shapes import spec

        return spec(value)

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """Return what a layout map or a distribution asks for each variable; None for other specs."""
        from nbdist.engine.frameworks.keras.shapes import layout

        return layout(specs, arrays, value)

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """Return None: the back end lays meshes."""
        return None


FRAMEWORK = Keras()
