"""The toy on an engine."""

import os
import sys
from typing import Any

from msgspec import structs

from nbdist.contract.calls.engine import EmptyStage, Initialized
from nbdist.contract.snapshot import Array, Device, SingleDevice
from nbdist.engine.frameworks import Framework
from nbdist.engine.frameworks.interfaces import Arrays
from nbdist.engine.probe.observer import Observer
from nbdist.engine.values.arrays import OfferedArray, whole


class ToyObserver(Observer):
    """Sees its arrays, on one device a process."""

    def __init__(self, main_thread: int, process_id: int) -> None:
        self._process_id = process_id
        self._device = f"{process_id}:0"
        self._arrays: list[Array] = []

    def begin(self) -> bool:
        """Starts a look."""
        self._arrays = []
        return True

    def array_classes(self) -> tuple[type, ...]:
        """Its only class."""
        return (sys.modules["toy"].Array,)

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Lists an array."""
        self._arrays.append(structs.replace(self.describe(array), path=path))
        return True

    def describe(self, array: Any) -> Array:
        """One array."""
        return Array(
            path="",
            shape=(len(array.values),),
            dtype="float64",
            nbytes=8 * len(array.values),
            sharding=SingleDevice(device=self._device, memory_kind=None),
        )

    def devices(self) -> tuple[Device, ...]:
        """One."""
        brick = Device(
            key=self._device,
            process_id=self._process_id,
            id=0,
            platform="toy",
            kind="brick",
            coords=None,
            memory=None,
            live_bytes=None,
        )
        return (brick,)

    def arrays(self) -> tuple[Array, ...]:
        """Those of this look."""
        return tuple(self._arrays)


class ToyArrays(Arrays):
    """Arrays of the toy, for a kernel."""

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """An array, as NumPy has it."""
        import numpy

        if not isinstance(value, sys.modules["toy"].Array):
            return None
        return whole(numpy.array(value.values))


def initialize(process: Any, stage: EmptyStage) -> Initialized:
    """Nobody has to be waited for."""
    assert os.environ["TOY_RANK"] == str(process.process_id)
    return Initialized(process_id=process.process_id, platform="cpu")


FRAMEWORK = Framework(
    name="toy",
    title="Toy",
    packages=("toy",),
    initialize=initialize,
    arrays=ToyArrays,
    observer=ToyObserver,
)
