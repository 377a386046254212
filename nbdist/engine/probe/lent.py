"""The value of a variable while a running training step has it."""

from __future__ import annotations

from typing import Any


class Lent:
    """The value of a variable while a running `fit` has it; its memory may be given away already.

    Args:
      array: The value as the last step returned it; None if it is out of reach.
      shape: The variable's shape.
    """

    __slots__ = ("array", "shape")

    def __init__(self, array: Any | None, shape: tuple[int, ...]) -> None:
        self.array = array
        self.shape = shape
