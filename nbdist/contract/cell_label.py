"""What goes with a cell beside its code, in the label of its execute request, a public field of ipyparallel's."""

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
      run: The number of this sending; a later one in the same session has a higher one.
      targets: The processes it is sent to.
      computes: Whether it may use a device; one that cannot runs also while processes are not in step.
      in_step: After which program, as generation and serial, the kernel knows all processes to be in step; None
        where it knows of none, or the cell does not go to all.
      compared: Whether the kernel compares what the processes have sent before it sends another cell.
      widgets: Whether widgets are shown as such; else as text.
      door: Through which the person came who sends it (`nbdist.spelling.Door`): what the processes say speaks
        their language.
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
        """As it is sent."""
        return PREFIX + json.dumps(encode(self))


@lru_cache(maxsize=4)  # an engine reads that of its cell three times
def label_from(text: str) -> CellLabel | None:
    """The label of a request; None for one of somebody else's.

    Raises:
      WireError: It is ours, and has another shape.
    """
    if not text.startswith(PREFIX):
        return None
    try:
        data = json.loads(text.removeprefix(PREFIX))
    except ValueError as error:
        raise WireError(f"The label of a cell cannot be read: {error}.") from error
    return decode(CellLabel, data)
