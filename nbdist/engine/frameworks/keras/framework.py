"""Keras on an engine; its arrays are those of its back end, JAX's for all that concerns several processes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nbdist.contract.stages import KerasStage
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.frameworks.jax.framework import Jax
from nbdist.engine.frameworks.keras.classes import PACKAGES

if TYPE_CHECKING:
    from nbdist.contract.calls.arrays import ArraysFound, Summary
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.agreement.comparer import Comparer
    from nbdist.engine.frameworks.process import Process
    from nbdist.engine.frameworks.shapes import ArrayShape, AskedLayout, AskedSpec
    from nbdist.engine.namespace.objects import Objects
    from nbdist.engine.namespace.placements import Placements
    from nbdist.engine.probe.library import Library
    from nbdist.engine.probe.observer import ModelObserver, Observer
    from nbdist.engine.probe.samples import Seen
    from nbdist.engine.values.parts import Children, OfferArray

GUARDS = PurePath(__file__).parent / "guards"


class Keras(Jax):
    """See `nbdist.engine.frameworks.framework.Framework`."""

    name = "keras"
    title = "Keras"
    packages = PACKAGES
    stage = KerasStage
    builds_on = "jax"
    waits: Mapping[tuple[str, str], str] = MappingProxyType(
        {
            (str(GUARDS / "agreement.py"), "_wait"): "agreement",
            (str(GUARDS / "waiting.py"), "until_ready"): "framework",
        }
    )

    def is_imported(self) -> bool:
        """Whether Keras, or Keras 2 for TensorFlow, has been imported."""
        return Framework.is_imported(self)

    def is_compiling(self, path: str, function: str) -> bool:
        """Keras itself compiles nothing; its back end does."""
        return False

    def initialize(self, process: Process, stage: Any) -> Initialized:
        """See `nbdist.engine.frameworks.keras.start.initialize`."""
        from nbdist.engine.frameworks.keras.start import initialize

        return initialize(process, stage)

    def holds(self) -> str | None:
        """Nothing that its back end does not hold."""
        return None

    def install(self, shell: Any) -> None:
        """Arrays are shown by the framework they belong to."""

    def library(self) -> Library | None:
        """Layers, models, optimizers and variables."""
        from nbdist.engine.frameworks.keras.variables import Places

        return Places()

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """None: arrays are looked at by the framework they belong to."""
        return None

    def model_observer(self, main_thread: int, library: Library) -> ModelObserver | None:
        """What looks at models and the distribution that is set."""
        from nbdist.engine.frameworks.keras.observe import KerasObserver
        from nbdist.engine.frameworks.keras.variables import Places

        assert isinstance(library, Places)
        return KerasObserver(main_thread, library)

    def objects(self, process_id: int) -> Objects | None:
        """See `nbdist.engine.frameworks.keras.objects.Objects`; None of Keras 2 for TensorFlow."""
        if "keras" not in sys.modules:
            return None
        from nbdist.engine.frameworks.keras.objects import Objects

        return Objects(process_id)

    def placements(self, process: Process, *, processes: int | None = None) -> Placements:
        """See `nbdist.engine.frameworks.keras.placements`."""
        from nbdist.engine.frameworks.jax.start import step_or_new
        from nbdist.engine.frameworks.keras.placements import Placements, Resized

        step = step_or_new(process)
        if processes is None:
            return Placements(process.shell.user_ns, step)
        return Resized(process.shell.user_ns, step, processes)

    def tree(self, value: object, expression: str) -> ArraysFound | None:
        """None: trees are those of the framework the arrays belong to."""
        return None

    def summary(self, namespace: dict[str, object], path: str) -> Summary | None:
        """None: arrays are summarized by the framework they belong to."""
        return None

    def keeps_its_own(self, value: Any) -> bool:
        """See `nbdist.engine.frameworks.keras.state.keeps_its_own`."""
        from nbdist.engine.frameworks.keras.state import keeps_its_own

        return keeps_its_own(value)

    def state(self, value: Any) -> Any | None:
        """See `nbdist.engine.frameworks.keras.state.state`."""
        from nbdist.engine.frameworks.keras.state import state

        return state(value)

    def set_state(self, value: Any, state: Any) -> None:
        """See `nbdist.engine.frameworks.keras.state.set_state`."""
        from nbdist.engine.frameworks.keras.state import set_state

        set_state(value, state)

    def comparer(self) -> Comparer | None:
        """What compares the distribution that is set."""
        from nbdist.engine.frameworks.keras.comparer import Comparer

        return Comparer()

    def unwrapped(self, value: Any) -> Any:
        """What a variable of Keras holds."""
        from nbdist.engine.frameworks.keras.variables import unwrapped

        return unwrapped(value)

    def array_of(self, value: Any) -> Any:
        """What a variable of Keras holds."""
        return self.unwrapped(value)

    def stand_in(self, value: object) -> object | None:
        """None: models are pickled as Keras pickles them."""
        return None

    def children(self, value: object) -> Children | None:
        """None: models are compared as a whole."""
        return None

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        """See `nbdist.engine.frameworks.keras.digest.model_digest`."""
        from nbdist.engine.frameworks.keras.digest import model_digest

        return model_digest(value, path, offer_array)

    def model_glance(self, value: object) -> Seen | None:
        """See `nbdist.engine.frameworks.keras.digest.model_glance`."""
        from nbdist.engine.frameworks.keras.digest import model_glance

        return model_glance(value)

    # -- of values that are planned, in any process -----------------------------------------------

    def shapes(self, value: Any) -> Sequence[ArrayShape] | None:
        """The variables of a layer, model or optimizer."""
        from nbdist.engine.frameworks.keras.shapes import shapes

        return shapes(value)

    def mesh_axes(self, value: Any) -> Mapping[str, int] | None:
        """See `nbdist.engine.frameworks.keras.shapes.mesh_axes`."""
        from nbdist.engine.frameworks.keras.shapes import mesh_axes

        return mesh_axes(value)

    def spec(self, value: Any) -> AskedSpec | None:
        """See `nbdist.engine.frameworks.keras.shapes.spec`."""
        from nbdist.engine.frameworks.keras.shapes import spec

        return spec(value)

    def layout(self, specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
        """See `nbdist.engine.frameworks.keras.shapes.layout`."""
        from nbdist.engine.frameworks.keras.shapes import layout

        return layout(specs, arrays, value)

    def mesh_over(self, sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
        """None: its back end lays meshes."""
        return None


FRAMEWORK = Keras()
