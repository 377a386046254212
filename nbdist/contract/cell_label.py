"""Metadata of a cell, in the label of its execute request (a public field of ipyparallel's)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from nbdist.contract.wire import decode, encode
from nbdist.errors import WireError

PREFIX = "nbdist "


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLabel:
    """One sending of a cell of the notebook.

    Attributes:
      cell: The notebook's execution count.
      offset: How many lines of the notebook's cell stand above the code.
      run: The number of this sending; a later one in the same session has a higher number.
      targets: The processes that receive the cell.
      computes: Whether the cell may use a device; a cell that cannot also runs while processes are not in step.
      in_step: The program, as generation and serial, after which the kernel knows all processes to be in step;
        None if it knows of none, or if the cell does not go to all.
      compared: Whether the kernel compares what the processes have sent before it sends another cell.
      widgets: Whether widgets are shown as widgets; else as text.
      door: The interface the person uses (`nbdist.spelling.Door`); messages of the processes use its syntax.
    """

    cell: int
    offset: int
    run: int
    targets: tuple[int, ...]
    computes: bool = True
    in_step: tuple[int, int] | None = None
    compared: bool = False
    widgets: bool = False
    door: Literal["python", "magic"] = "python"

    def text(self) -> str:
        """Return the label as text."""
        return PREFIX + json.dumps(encode(self))


@lru_cache(maxsize=4)  # an engine reads the label of its cell three times
def label_from(text: str) -> CellLabel | None:
    """Return the label of a request; None if the label is somebody else's.

    Raises:
      WireError: The label is ours, and has another shape.
    """
    if not text.startswith(PREFIX):
        return None
    try:
        data = json.loads(text.removeprefix(PREFIX))
    except ValueError as error:
        raise WireError(f"The label of a cell cannot be read: {error}.") from error
    return decode(CellLabel, data)
