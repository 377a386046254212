"""Places of the batches of a distribution: which processes take part, and which sizes of steps they can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.keras.guards.arguments import Feed


@dataclass(frozen=True, slots=True)
class Places:
    """A set distribution, as this process sees its batch axis.

    `axis` is the mesh axis that rows are split over. It has `count` places; this process has devices on `own` of
    them. `processes` are those with devices in the mesh, in order. `text` is the mesh as in `batch=4 × model=2`.
    """

    kind: str
    text: str
    axis: str
    count: int
    own: int
    processes: tuple[int, ...]

    @classmethod
    def of(cls, distribution: Any, process_id: int) -> Places:
        """Return the places of a `keras.distribution.Distribution` on JAX."""
        mesh = distribution.device_mesh
        devices = mesh.backend_mesh.devices
        axis = list(mesh.axis_names).index(distribution.batch_dim_name)
        own = {
            index // _stride(devices.shape, axis) % devices.shape[axis]
            for index, device in enumerate(devices.flat)
            if device.process_index == process_id
        }
        sizes = zip(mesh.axis_names, devices.shape, strict=True)
        return cls(
            kind=type(distribution).__name__,
            text=" × ".join(f"{name}={size}" for name, size in sizes),
            axis=distribution.batch_dim_name,
            count=int(devices.shape[axis]),
            own=len(own),
            processes=tuple(sorted({device.process_index for device in devices.flat})),
        )

    @property
    def times(self) -> int:
        """The number of shares that the rows of a step have; each process gives one share."""
        return self.count // self.own if self.own else 1

    def rows(self, local: int | None) -> int | None:
        """Return the rows of all processes in a step to which this process gives `local` rows."""
        return None if local is None or not self.own else local * self.count // self.own

    def bad_sizes(self, feed: Feed) -> list[int]:
        """Return the sizes of steps that do not divide over this process's places."""
        sizes = [size for size in (feed.batch, feed.last) if size]
        return [size for size in sizes if self.own and size % self.own]


def _stride(shape: tuple[int, ...], axis: int) -> int:
    stride = 1
    for size in shape[axis + 1 :]:
        stride *= size
    return stride
