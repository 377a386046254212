"""Which devices take part in a collective together, in XLA's notations, as numbers of partitions.

Four notations: `{{0,4},{1,5}}`; `[2,4]<=[4,2]T(1,0)`; `mesh['data'=2,'model'=4] {'model'}` with an order of its
devices and parts of axes; and for permutations pairs of a source and a target, `{{0,1},{1,2}}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from nbdist.errors import ProgramError

Groups = tuple[tuple[int, ...], ...]

_LISTS = re.compile(r"\{((?:\{[\d,\s]*\}[,\s]*)*)\}")
_LIST = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"mesh\[([^\]]*)\](?:, device_ids=\(((?:\[[\d,]*\](?:T\([\d,]*\))?)|[\d,\s]*)\))? \{([^}]*)\}"
)
_AXIS = re.compile(r"'?([^'=,]+)'?=(\d+)")
_TAKEN = re.compile(r"'?([^',:]+)'?(?::\((\d+)\)(\d+)'?)?")
_ORDER = re.compile(r"\[([\d,]*)\](?:T\(([\d,]*)\))?")


def groups_in(attributes: str, count: int) -> tuple[str, Groups]:
    """The groups of a collective.

    Args:
      attributes: Of the instruction, from `replica_groups=` on.
      count: Devices of the program: all are one group where the text lists none.

    Returns:
      The notation, and the groups.

    Raises:
      ProgramError: The notation is none of those that are known.
    """
    for pattern, read in ((_LISTS, _listed), (_IOTA, _iota), (_MESH, _in_mesh)):
        match = pattern.match(attributes)
        if match is not None:
            groups = read(match)
            if not groups:
                groups = (tuple(range(count)),)
            return match[0], groups
    raise ProgramError(
        f"The groups of a collective are written in a form that is not known here: {attributes[:80]!r}"
    )


def pairs_in(attributes: str) -> tuple[str, Groups]:
    """Source and target of each transfer of a permutation; see `groups_in`."""
    match = _LISTS.match(attributes)
    if match is None or any(len(pair) != 2 for pair in _listed(match)):
        raise ProgramError(
            f"The pairs of a permutation are written in a form that is not known here: {attributes[:80]!r}"
        )
    return match[0], _listed(match)


def _listed(match: re.Match[str]) -> Groups:
    return tuple(_numbers(inner) for inner in _LIST.findall(match[1]))


def _iota(match: re.Match[str]) -> Groups:
    dims, shape = _numbers(match[1]), _numbers(match[2])
    if len(dims) != 2 or prod(dims) != prod(shape):
        raise ProgramError(f"The groups of a collective do not belong together: {match[0]!r}")
    return _cut(_transposed(shape, _numbers(match[3]) if match[3] else range(len(shape))), dims[1])


def _in_mesh(match: re.Match[str]) -> Groups:
    axes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    names, sizes = list(axes), list(axes.values())
    if match[2] is None:
        order: Sequence[int] = range(prod(sizes))
    elif iota := _ORDER.fullmatch(match[2]):
        shape = _numbers(iota[1])
        order = _transposed(shape, _numbers(iota[2]) if iota[2] else range(len(shape)))
    else:
        order = _numbers(match[2])
    # Parts of axes become axes of their own: (before, part, after).
    split: list[int] = []
    taken: list[int] = []
    wanted: dict[str, list[tuple[int, int]]] = {}
    for name, before, size in _TAKEN.findall(match[3]):
        if name not in axes:
            raise ProgramError(f"The groups of a collective name an unknown axis: {match[0]!r}")
        part = (int(before), int(size)) if before else (1, axes[name])
        wanted.setdefault(name, []).append(part)
    for name, size in zip(names, sizes, strict=True):
        done = 1
        for pre, length in sorted(wanted.get(name, [])):
            if pre < done or pre % done or size % (pre * length):
                raise ProgramError(
                    f"The groups of a collective do not belong together: {match[0]!r}"
                )
            split.append(pre // done)
            taken.append(len(split))
            split.append(length)
            done = pre * length
        split.append(size // done)
    if prod(split) != len(order):
        raise ProgramError(f"The groups of a collective do not belong together: {match[0]!r}")
    rest = [axis for axis in range(len(split)) if axis not in taken]
    places = _transposed(split, [*rest, *taken])
    return _cut([order[place] for place in places], prod(split[axis] for axis in taken))


def _transposed(shape: Sequence[int], axes: Iterable[int]) -> list[int]:
    """Numbers 0, 1, … in an array of a shape, read in the order of other axes, the last changing fastest."""
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    ordered = list(axes)
    if sorted(ordered) != list(range(len(shape))):
        raise ProgramError(f"The groups of a collective have axes {ordered} of {len(shape)}")
    return [
        sum(place)
        for place in product(
            *(range(0, shape[axis] * strides[axis], strides[axis]) for axis in ordered)
        )
    ]


def _cut(numbers: Sequence[int], size: int) -> Groups:
    return tuple(
        tuple(numbers[begin : begin + size]) for begin in range(0, len(numbers), max(size, 1))
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())
