"""A plan as plain data: what each device would hold of each array.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nbdist.engine.frameworks.shapes import Entries
from nbdist.rehearsal.topology import Topology
from nbdist.rehearsal.torus import MeshPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArray:
    """One array of a plan.

    Attributes:
      path: The Python expression that reaches it; in Keras, the path of the variable.
      name: The text that rules are matched against.
      shape: Of the whole array.
      dtype: Its name.
      nbytes: Bytes of one whole copy.
      spec: The mesh axes that split each dimension; as it was asked for where that is impossible.
      rule: The pattern that gave the spec; None where none did.
      asked: Whether a spec was asked for; without one the array is whole on each device.
      state: `even`; `uneven` where a dimension is not divided evenly, which JAX takes within `jit` alone, and then
        pads; `impossible` where no array can have this spec.
      piece_shape: Shape of the largest piece of a device; None where the spec is impossible.
      device_bytes: Bytes of the largest piece of a device; None where the spec is impossible.
      copies: Devices that would hold the very same piece; None where that differs, or the spec is impossible.
      why: What is wrong, and what would fit; None where nothing is.
      could: An axis of the mesh that would split it, where it is large and whole on each device; else None.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    spec: Entries
    rule: str | None
    asked: bool
    state: Literal["even", "uneven", "impossible"]
    piece_shape: tuple[int, ...] | None
    device_bytes: int | None
    copies: int | None
    why: str | None
    could: str | None

    @property
    def whole(self) -> bool:
        """Return whether each device would hold all of it."""
        return self.state != "impossible" and not any(self.spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan of what each device of a mesh would hold.

    Attributes:
      name: The name of the planned value.
      source: Where its name was found, such as `this notebook`; empty where the value itself was given.
      topology: None where only a number of devices was given.
      devices: Number of devices.
      axes: The size of each axis of the mesh, in order.
      place: Where the mesh lies on the pod; None where that is not known.
      memory_bytes: Of one device; None where it is not known.
      arrays: In the order of the planned value.
      unmatched: Rules, or specs, that match none of the arrays.
      noun: A word for these rules or specs.
      made_for: The axes of the mesh that the specs were made for, where it is another one; else None.
    """

    name: str
    source: str
    topology: Topology | None
    devices: int
    axes: Mapping[str, int]
    place: MeshPlace | None
    memory_bytes: int | None
    arrays: tuple[PlannedArray, ...]
    unmatched: tuple[str, ...]
    noun: str
    made_for: Mapping[str, int] | None

    @property
    def nbytes(self) -> int:
        """Bytes of one whole copy of each array."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def device_bytes(self) -> int:
        """Bytes that the fullest device would hold of all arrays, without those whose spec is impossible."""
        return sum(array.device_bytes or 0 for array in self.arrays)

    @property
    def total_bytes(self) -> int:
        """Bytes that all devices would hold together, with the padding of uneven pieces."""
        return self.device_bytes * self.devices

    @property
    def fits(self) -> bool | None:
        """Return whether a device has room for what it would hold; None where that is not known."""
        if self.memory_bytes is None:
            return None
        if self.device_bytes > self.memory_bytes:
            return False
        return None if self.impossible else True

    @property
    def impossible(self) -> tuple[PlannedArray, ...]:
        """Arrays that cannot have the spec that was asked for; no bytes are counted for them."""
        return tuple(array for array in self.arrays if array.state == "impossible")

    @property
    def uneven(self) -> tuple[PlannedArray, ...]:
        """Arrays with a dimension that is not divided evenly."""
        return tuple(array for array in self.arrays if array.state == "uneven")

    @property
    def whole(self) -> tuple[PlannedArray, ...]:
        """Arrays that each device would hold as a whole, the largest first."""
        found = (array for array in self.arrays if array.whole)
        return tuple(sorted(found, key=lambda array: array.nbytes, reverse=True))

    @property
    def copies_bytes(self) -> int:
        """Bytes that copies cost on all devices together, beyond the first of each piece."""
        return sum(
            array.device_bytes * self.devices * (array.copies - 1) // array.copies
            for array in self.arrays
            if array.device_bytes is not None and array.copies is not None
        )
