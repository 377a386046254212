"""The memory and arrays that each process last reported: all that is known of them once it is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist.contract.snapshot import Array, DeviceKey, Mesh, Report
from nbdist.errors import SpecError
from nbdist.pieces import piece_bytes, pieces, split

LARGEST = 3
"""The most arrays that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldArray:
    """An array, and the bytes of its pieces on the devices of one process, every copy counted."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The memory of a process in bytes, and its largest arrays, largest first."""

    rss_bytes: int
    arrays: tuple[HeldArray, ...]


@dataclass(frozen=True, slots=True)
class _Sections:
    pid: int
    rss_bytes: int | None = None
    meshes: tuple[Mesh, ...] = ()
    arrays: tuple[Array, ...] = ()


class Holdings:
    """Keeps the newest sections of each process, also of an ended one; used from any thread."""

    def __init__(self) -> None:
        self._of: dict[int, _Sections] = {}

    def take(self, report: Report) -> None:
        """Take in one report; sections that are None have not changed."""
        known = self._of.get(report.process_id)
        if known is None or known.pid != report.pid:
            known = _Sections(report.pid)
        if report.activity is not None:
            known = replace(known, rss_bytes=report.activity.rss_bytes)
        if report.meshes is not None:
            known = replace(known, meshes=report.meshes)
        if report.arrays is not None:
            known = replace(known, arrays=report.arrays)
        self._of[report.process_id] = known

    def held(self, process_id: int) -> Held | None:
        """Return what a process held when it last reported; None before its first report."""
        known = self._of.get(process_id)
        if known is None or known.rss_bytes is None:
            return None
        meshes = {mesh.id: mesh for mesh in known.meshes}
        return Held(
            rss_bytes=known.rss_bytes, arrays=largest(known.arrays, meshes, process_id=process_id)
        )


def largest(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> tuple[HeldArray, ...]:
    """Return the arrays of which a process holds most; leaves out those whose mesh is not known.

    Args:
      arrays: As the process has reported them.
      meshes: The meshes it has reported, by id.
      process_id: The process.
    """
    at_most = sorted(
        _at_most(arrays, meshes, process_id=process_id), key=lambda one: one[0], reverse=True
    )
    found: list[HeldArray] = []
    for bound, array in at_most:
        # Pieces are listed for few arrays only: one array may have thousands.
        if len(found) == LARGEST and found[-1].nbytes >= bound:
            break
        nbytes = sum(
            piece_bytes(array, part.slices) * sum(_is_of(key, process_id) for key in part.devices)
            for part in pieces(array, meshes)
        )
        if nbytes:
            found.append(
                HeldArray(path=array.path, dtype=array.dtype, shape=array.shape, nbytes=nbytes)
            )
            found = sorted(found, key=lambda one: one.nbytes, reverse=True)[:LARGEST]
    return tuple(found)


def _at_most(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> Iterator[tuple[int, Array]]:
    """Yield each array with an upper bound of the process's bytes: the largest piece on each of its devices."""
    devices = {
        name: sum(_is_of(key, process_id) for key in mesh.devices) for name, mesh in meshes.items()
    }
    for array in arrays:
        sharding = array.sharding
        try:
            cut = split(array, meshes)
        except SpecError:
            continue
        own = devices[sharding.mesh] if sharding.kind == "named" else cut.devices
        yield cut.piece_bytes * own, array


def _is_of(key: DeviceKey, process_id: int) -> bool:
    return key.startswith(f"{process_id}:")
