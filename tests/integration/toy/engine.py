"""The toy on an engine."""

import os
import sys
from dataclasses import replace
from typing import Any

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.snapshot import Array, Device, Distribution, Mesh, SingleDevice
from nbdist.contract.stages import EmptyStage
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.values.arrays import OfferedArray, whole


class Observer:
    """Sees its arrays, on one device a process; see `nbdist.engine.probe.observer.Observer`."""

    def __init__(self, process_id: int) -> None:
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

    def mesh_classes(self) -> tuple[type, ...]:
        """None."""
        return ()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Lists an array."""
        self._arrays.append(replace(self.describe(array), path=path))
        return True

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """Nothing is taken out."""
        return False

    def add_mesh(self, mesh: Any) -> None:
        """There is none."""

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

    def meshes(self) -> tuple[Mesh, ...]:
        """None."""
        return ()

    def arrays(self) -> tuple[Array, ...]:
        """Those of this look."""
        return tuple(self._arrays)

    def context_mesh(self) -> str | None:
        """None."""
        return None

    def distributions(self) -> tuple[Distribution, ...]:
        """None."""
        return ()

    def note(self) -> None:
        """Nothing to note."""

    def hook(self) -> None:
        """Nothing to follow."""

    def unhook(self) -> None:
        """Nothing to leave."""


class Toy(Framework):
    """See `nbdist.engine.frameworks.framework.Framework`."""

    name = "toy"
    title = "Toy"
    packages = ("toy",)

    def initialize(self, process: Any, stage: EmptyStage) -> Initialized:
        """Nobody has to be waited for."""
        assert os.environ["TOY_RANK"] == str(process.process_id)
        return Initialized(process_id=process.process_id, platform="cpu")

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """An array, as NumPy has it."""
        import numpy

        if not isinstance(value, sys.modules["toy"].Array):
            return None
        return whole(numpy.array(value.values))

    def observer(self, main_thread: int, process_id: int) -> Observer:
        """What sees its arrays."""
        return Observer(process_id)


FRAMEWORK = Toy()
