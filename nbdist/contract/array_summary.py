"""What one process has of an array: its part of the corners, of a picture, and of a few numbers.

It is answered to a kernel that asks, and displayed by cells, as the MIME type `MIME`.
"""

from __future__ import annotations

from dataclasses import dataclass

MIME = "application/vnd.nbdist.summary+json"
"""Of one process's part of a summary, beside the text that JAX gives the array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Of the values of a piece.

    Attributes:
      nan: How many are NaN.
      counted: How many others there are.
      whole: Whether they are whole numbers.
      min: The smallest, as text, since JSON has no infinity; None where there is none, or no order.
      max: The largest.
      sum: Of them.
    """

    nan: int
    counted: int
    whole: bool
    min: str | None = None
    max: str | None = None
    sum: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceSummary:
    """One piece of the array.

    Attributes:
      size: How many values it has.
      numbers: None where they were not looked at.
      places: The part of the grid that lies in it; None where there is no grid, or it was not read.
      values: Those there, in Base64.
    """

    size: int
    numbers: Numbers | None = None
    places: tuple[tuple[int, int], ...] | None = None
    values: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySummary:
    """The part of one process.

    Attributes:
      shape: Of the whole array.
      dtype: The name of it.
      about: Type, spec and mesh as text.
      grid: The places along each axis whose values are shown; None where there are too many axes.
      pieces: Those on this process.
    """

    shape: tuple[int, ...]
    dtype: str
    about: str
    grid: tuple[tuple[int, ...], ...] | None
    pieces: tuple[PieceSummary, ...]
