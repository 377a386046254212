"""What a session does with its cells, as it was started."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.errors import OptionError
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Hold for every cell that does not say otherwise.

    `grace_s` is how many seconds others may stay in a cell in which one process has failed. `give_up_s` is how
    long a process that no interrupt reaches may go on by itself before the cell ends without it. `check`:
    compare before each cell what must be equal on all processes. `recover`: processes that are not in step are
    repaired at once, not only by `%dist_recover`. `copies_s`: after a cell, so many seconds after the last time or
    later, parts of arrays that one process alone has are copied to another; None: never.

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
