"""The axes of a mesh as people write them, and which meshes a number of devices allows.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nbdist.engine.frameworks import imported
from nbdist.errors import OptionError
from nbdist.quantities import count_text
from nbdist.spelling import option

Axes = Mapping[str, int]
"""The size of each axis, in the order of the mesh."""

MOST_FITTING = 4
"""So many meshes that would fit are named."""

MOST_AXES = 4
"""Meshes of more axes are not searched for others that would fit."""

REST = -1
"""The size of an axis that takes what the others leave."""


def axes_text(axes: Axes) -> str:
    """`data=16 × model=16`."""
    return " × ".join(f"{name}={size}" for name, size in axes.items())


def typed_text(axes: Axes) -> str:
    """`data=16,model=16`, as a person types it."""
    return ",".join(f"{name}={size}" for name, size in axes.items())


def read_axes(mesh: Any) -> dict[str, int]:
    """The axes of a mesh.

    Args:
      mesh: `"data=16,model=16"`, a dict, or a mesh of JAX or Keras; a size of -1 takes what the others leave.

    Raises:
      OptionError: It is none of these, or an axis has no size.
    """
    if isinstance(mesh, str):
        return _read_text(mesh)
    axes = mesh if isinstance(mesh, Mapping) else _of_framework(mesh)
    if axes is None:
        raise OptionError(
            f"{option('mesh')}: {mesh!r} is no mesh. Write "
            f"{option('mesh', 'data=16,model=16')}, or give a mesh of JAX or Keras."
        )
    for name, size in axes.items():
        if not isinstance(name, str) or isinstance(size, bool) or not isinstance(size, int):
            raise OptionError(f"{option('mesh')}: axis {name!r} of size {size!r}.")
        _check_size(name, size)
    return dict(axes)


def with_rest(axes: Axes, devices: int | None) -> dict[str, int]:
    """The axes, the one of size -1 with what the others leave.

    Raises:
      OptionError: More than one is to take the rest, or the others do not divide the devices.
    """
    open_axes = [name for name, size in axes.items() if size == REST]
    if not open_axes:
        return dict(axes)
    others = math.prod(size for size in axes.values() if size != REST)
    if len(open_axes) > 1 or devices is None or devices % others:
        total = "an unknown number of devices" if devices is None else f"{devices} devices"
        raise OptionError(
            f"mesh {axes_text(axes)}: one axis of size {REST} takes what the others leave of {total}, "
            f"and the others take {others}."
        )
    return {name: devices // others if size == REST else size for name, size in axes.items()}


def check_devices(axes: Axes, devices: int, where: str, hint: str = "") -> None:
    """Refuses a mesh that does not take all devices.

    Args:
      axes: Of the mesh.
      devices: How many there are.
      where: What they are of, such as `v5e:16x16`.
      hint: A sentence for the end of the error, with a blank before it; empty for none.

    Raises:
      OptionError: Names meshes that would fit.
    """
    wanted = math.prod(axes.values())
    if wanted == devices:
        return
    near = [typed_text(mesh) for mesh in itertools.islice(fitting(axes, devices), MOST_FITTING)]
    would = f" These would fit: {'; '.join(near)}." if near else ""
    raise OptionError(
        f"mesh {axes_text(axes)} has {count_text(wanted, 'device')}, {where} has {devices}.{would}{hint}"
    )


def slices_of(axes: Axes, slices: int) -> dict[str, int] | None:
    """Over how many slices each axis goes: the first that can goes over all; None where none can."""
    found = dict.fromkeys(axes, 1)
    if slices > 1:
        first = next((name for name, size in axes.items() if size % slices == 0), None)
        if first is None:
            return None
        found[first] = slices
    return found


def check_slices(axes: Axes, slices: int) -> dict[str, int]:
    """Over how many slices each axis goes.

    Raises:
      OptionError: No axis can go over all slices.
    """
    found = slices_of(axes, slices)
    if found is None:
        raise OptionError(
            f"mesh {axes_text(axes)} cannot lie over {slices} slices: one axis goes over all of them, so its size "
            f"must be a multiple of {slices}."
        )
    return found


def fitting(axes: Axes, devices: int) -> Iterator[dict[str, int]]:
    """Meshes of the same axes that take all devices, those that change the fewest and the least sizes first."""
    names, sizes = list(axes), list(axes.values())
    if not names or len(names) > MOST_AXES:
        return
    every = _products(devices, len(names))

    def distance(found: tuple[int, ...]) -> tuple[int, float]:
        changed = [(a, b) for a, b in zip(sizes, found, strict=True) if a != b]
        return len(changed), sum(abs(math.log(a / b)) for a, b in changed)

    for found in sorted(every, key=distance):
        yield dict(zip(names, found, strict=True))


def _products(number: int, factors: int) -> list[tuple[int, ...]]:
    """All products of so many factors that give a number."""
    if factors == 1:
        return [(number,)]
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    return [
        (first, *rest) for first in divisors for rest in _products(number // first, factors - 1)
    ]


def _read_text(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for part in text.replace("×", ",").replace(";", ",").split(","):
        name, is_named, size = (word.strip() for word in part.partition("="))
        if not is_named or not name or not size.removeprefix("-").isdecimal():
            raise OptionError(
                f"{option('mesh')}: cannot read {part.strip()!r} of {text!r}. Write the size of each axis, "
                "such as data=16,model=16."
            )
        if name in axes:
            raise OptionError(f"{option('mesh')}: {text!r} has axis {name!r} twice.")
        axes[name] = int(size)
        _check_size(name, axes[name])
    return axes


def _check_size(name: str, size: int) -> None:
    if size < 1 and size != REST:
        raise OptionError(
            f"{option('mesh')}: axis {name!r} has size {size}; allowed: 1 or more, or {REST} for the rest."
        )


def _of_framework(mesh: Any) -> Mapping[str, int] | None:
    found = (one.mesh_axes(mesh) for one in imported())
    return next((axes for axes in found if axes is not None), None)
