"""Ranges of numbers as text: `0-3,5`, `01-64`, `0-10:2`; both ends count.

Source: `--array` of sbatch(1) for the step, Slurm's lists of hosts for the padding. Imports nothing outside the
standard library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST = 100_000
"""So many numbers, or hosts, one text may stand for."""

FORM = "numbers and ranges, such as 0-3,5 or 0-10:2"

_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18})(?::(?P<step>[0-9]{1,18}))?)?")


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number, or a range of them with both ends, as it was written.

    `width` is the least number of digits, which zeros in front make up: `08-11` has 2.
    """

    numbers: range
    width: int = 1

    def texts(self) -> list[str]:
        """The numbers with the zeros they were written with."""
        return [str(number).zfill(self.width) for number in self.numbers]


def read_range(text: str) -> NumberRange:
    """`5`, `0-3` or `0-10:2`. The width is that of the first number, as in Slurm: `01-100` ends at `100`.

    Raises:
      ValueError: It is none, runs backwards or has a step of 0; in words that follow what was given.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        what = (
            f"{text.strip()!r} is no number and no range" if text.strip() else "a number is missing"
        )
        raise ValueError(f"{what}. Expected {FORM}.")
    first, last, step = (match["first"], match["last"] or match["first"], match["step"] or "1")
    if int(last) < int(first):
        raise ValueError(f"the range {first}-{last} runs backwards. Write {last}-{first}.")
    if int(step) == 0:
        raise ValueError(
            f"the range {match[0]} has a step of 0. Leave :{step} out, or write 1 or more."
        )
    return NumberRange(range(int(first), int(last) + 1, int(step)), len(first))


def read_ranges(text: str) -> list[NumberRange]:
    """`0-3,5`: ranges with commas between, in the order in which they stand there.

    Raises:
      ValueError: One that cannot be read (see `read_range`), or more than 100,000 numbers in all.
    """
    ranges = [read_range(part) for part in text.split(",")]
    refuse_too_many(count(ranges), "numbers")
    return ranges


def numbers(text: str) -> list[int]:
    """The numbers of `0-3,5`, in the order in which they stand there.

    Raises:
      ValueError: See `read_ranges`.
    """
    return [number for each in read_ranges(text) for number in each.numbers]


def count(ranges: Sequence[NumberRange]) -> int:
    """How many numbers these are."""
    return sum(len(each.numbers) for each in ranges)


def refuse_too_many(found: int, things: str) -> None:
    """Refuses more than a text may stand for.

    Raises:
      ValueError: Says how many `things` there are, and how many may be.
    """
    if found > MOST:
        raise ValueError(
            f"these are {found:,} {things}. At most {MOST:,} can be named: look for a digit too many."
        )
