"""Summary of an array on one process: its part of the corners, of a picture, and of a few numbers.

A process answers it to a kernel that asks; a cell displays it as the MIME type `MIME`.
"""

from __future__ import annotations

from dataclasses import dataclass

MIME = "application/vnd.nbdist.summary+json"
"""The MIME type of one process's part of a summary. It goes beside the text that JAX gives the array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A few numbers about the values of a piece.

    Attributes:
      nan: How many values are NaN.
      counted: How many values are not NaN.
      whole: Whether the values are whole numbers.
      min: The smallest, as text, since JSON has no infinity; None if there is no value, or no order.
      max: The largest, likewise.
      sum: Their sum, likewise.
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
      numbers: None if the values were not looked at.
      places: The part of the grid that lies in the piece; None if there is no grid, or it was not read.
      values: The values at those places, in Base64.
    """

    size: int
    numbers: Numbers | None = None
    places: tuple[tuple[int, int], ...] | None = None
    values: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySummary:
    """One process's part of the summary of an array.

    Attributes:
      shape: The shape of the whole array.
      dtype: The name of its dtype.
      about: Type, spec and mesh as text.
      grid: The places along each axis whose values are shown; None if there are too many axes.
      pieces: The pieces on this process.
    """

    shape: tuple[int, ...]
    dtype: str
    about: str
    grid: tuple[tuple[int, ...], ...] | None
    pieces: tuple[PieceSummary, ...]
