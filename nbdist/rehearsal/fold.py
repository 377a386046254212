"""Rows of similar arrays: they differ only in numbers in their paths, such as the layers of a model.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.rehearsal.planned import PlannedArray

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Similar arrays; `path` has the range of each number that differs, such as `blocks[0–31].kernel`."""

    path: str
    arrays: tuple[PlannedArray, ...]

    @property
    def first(self) -> PlannedArray:
        """An array that stands for all."""
        return self.arrays[0]

    @property
    def device_bytes(self) -> int:
        """The bytes that a device would hold of all of them."""
        return sum(array.device_bytes or 0 for array in self.arrays)


def rows(arrays: Sequence[PlannedArray]) -> list[Row]:
    """Return the arrays in rows: impossible ones, then uneven ones, then by the bytes a device needs."""
    alike: dict[tuple[object, ...], list[PlannedArray]] = {}
    for one in arrays:
        look = (one.shape, one.dtype, one.spec, one.rule, one.why, one.could)
        alike.setdefault((_NUMBER.sub("#", one.path), *look), []).append(one)
    order = {"impossible": 0, "uneven": 1, "even": 2}
    found = [Row(path=_path(found), arrays=tuple(found)) for found in alike.values()]
    return sorted(found, key=lambda row: (order[row.first.state], -row.device_bytes))


def _path(arrays: Sequence[PlannedArray]) -> str:
    paths = [array.path for array in arrays]
    numbers = [tuple(map(int, found)) for found in zip(*map(_NUMBER.findall, paths), strict=True)]
    texts = iter(_range(found) for found in numbers)
    return _NUMBER.sub(lambda _: next(texts), paths[0])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"
