"""The rules for the cells of a session, as it was started."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.errors import OptionError
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for every cell that does not say otherwise.

    Attributes:
      grace_s: How many seconds others may stay in a cell in which one process has failed.
      give_up_s: How long a process that no interrupt reaches may run on before the cell ends without it.
      check: Whether to compare before each cell what must be equal on all processes.
      recover: Whether processes that are out of step are repaired at once, not only by `%dist_recover`.
      copies_s: Parts of arrays that one process alone has are copied to another after a cell, at least this many
        seconds after the last time; None: never.

    Raises:
      OptionError: A negative number of seconds.
    """

    grace_s: float = 3.0
    give_up_s: float = 10.0
    check: bool = False
    recover: bool = True
    copies_s: float | None = None

    def __post_init__(self) -> None:
        times = (
            ("grace_s", self.grace_s),
            ("give_up_s", self.give_up_s),
            ("copies_s", self.copies_s),
        )
        for name, seconds in times:
            if seconds is not None and not seconds >= 0:
                raise OptionError(f"{option(name, seconds)}: must be 0 or more seconds.")
