"""Types of values in the text of a program: `f32[8,256]{1,0:T(8,128)}`, and tuples of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from nbdist.errors import ProgramError

_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([^\[\]]*)\]")
_NUMBER = re.compile(r"(?:bf|f|s|u|c)(\d+)")
_WITHOUT_DATA = ("token", "opaque")


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one array.

    Attributes:
      dtype: As XLA writes it: `f32`, `bf16`, `pred`, `f8e4m3fn`.
      dims: One size an axis; of one that may be smaller, the largest.
    """

    dtype: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Without the padding of a layout; numbers of less than a byte lie densely."""
        return (prod(self.dims) * _bits(self.dtype) + 7) // 8

    def __str__(self) -> str:
        """`f32[8,256]`."""
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@lru_cache(maxsize=4096)
def shapes_in(text: str) -> tuple[Shape, ...]:
    """All arrays of a type in the text, whether it is one or a tuple of them; tokens are left out.

    Raises:
      ProgramError: A type nobody knows.
    """
    found = []
    for dtype, dims in _ARRAY.findall(text):
        if dtype in _WITHOUT_DATA:
            continue
        _bits(dtype)
        try:
            sizes = tuple(int(size.strip().removeprefix("<=")) for size in dims.split(",") if size)
        except ValueError:
            raise ProgramError(
                f"The program's text has a shape that cannot be read: {dtype}[{dims}]"
            ) from None
        found.append(Shape(dtype, sizes))
    return tuple(found)


def _bits(dtype: str) -> int:
    if dtype == "pred":
        return 8
    number = _NUMBER.match(dtype)
    if number is None or not 1 <= int(number[1]) <= 128:
        raise ProgramError(
            f"The program's text has numbers of a type that is not known here: {dtype!r}. Known: pred, and s, u, "
            "f, bf and c with a number of bits."
        )
    return int(number[1])
