"""Names of hosts with ranges in brackets, as Slurm writes them: `node[01-64,70]`, `rack[1-2]n[1-4]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from math import prod

from nbdist.ranges import NumberRange, count, read_ranges, refuse_too_many

FORM = "numbers and ranges between [ and ], such as node[01-64,70]"

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A name with any number of brackets: `texts` stand before, between and after the `brackets`."""

    texts: tuple[str, ...]
    brackets: tuple[tuple[NumberRange, ...], ...]

    def __len__(self) -> int:
        return prod(map(count, self.brackets))

    def __iter__(self) -> Iterator[str]:
        """Yield the names; the numbers of the last brackets change first."""
        before, *after = self.texts
        numbers = [[t for each in ranges for t in each.texts()] for ranges in self.brackets]
        for chosen in product(*numbers):
            yield before + "".join(map("".join, zip(chosen, after, strict=True)))


def read_pattern(name: str) -> HostPattern:
    """Read one name, which may have brackets; the other characters are not checked.

    Raises:
      ValueError: Brackets are empty or do not pair up, a range in them cannot be read (see
        `nbdist.ranges.read_range`), or more than 100,000 names. The text continues a sentence about the name.
    """
    parts = _BRACKETS.split(name)
    texts, insides = parts[::2], parts[1::2]
    if any(sign in text for text in texts for sign in "[]"):
        raise ValueError(f"its brackets do not pair up. Expected {FORM}.")
    if not all(inside.strip() for inside in insides):
        raise ValueError(f"its brackets are empty. Expected {FORM}.")
    pattern = HostPattern(tuple(texts), tuple(tuple(read_ranges(inside)) for inside in insides))
    refuse_too_many(prod(map(count, pattern.brackets)), "hosts")
    return pattern


def split_names(text: str) -> list[str]:
    """Return the parts of a list, without empty ones; commas inside brackets do not separate."""
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def compress(names: Iterable[str]) -> str:
    """Return a list that stands for these names in their order: `n1`, `n2`, `m` give `n[1-2],m`.

    Only numbers at the ends of names are put together, so that Slurm 22.05 can read it, too.
    """
    halves = [(match[1], match[2]) if (match := _NUMBERED.fullmatch(n)) else (n, "") for n in names]
    return ",".join(
        _together(prefix, [number for _, number in group])
        for (prefix, _), group in groupby(halves, key=lambda half: (half[0], bool(half[1])))
    )


def _together(prefix: str, numbers: list[str]) -> str:
    if len(numbers) == 1 or not numbers[0]:
        return ",".join(prefix + number for number in numbers)
    runs: list[list[str]] = []
    for number in numbers:
        # As `read_range` writes it after the one before.
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])):
            runs[-1].append(number)
        else:
            runs.append([number])
    written = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{prefix}[{','.join(written)}]"
