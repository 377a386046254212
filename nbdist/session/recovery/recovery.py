"""`Recovery`: what is done to keep the processes of a session in step, whatever they compute with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nbdist.contract.cells import Doubt
from nbdist.launch.model.happenings import StartProgress
from nbdist.session.cells.context import Remedies

Say = Callable[[str], None]
"""Called with lines while something lasts, if it takes longer."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of a proof or repair: the processes are in step unless `why` says why not.

    Attributes:
      why: Why they are not in step.
      because: Why they were not in step when it began.
      mixed: Whether programs that did not belong together may have computed together, so that numbers were wrong.
      done: What was done.
      lost: What was lost.
      unsure: Names that may not hold on new processes what they held on those before them, and why.
      older: Names of arrays that are as they were when copies were made, and when that was.
    """

    why: str | None = None
    because: str | None = None
    mixed: bool = False
    done: str | None = None
    lost: tuple[str, ...] = ()
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    older: Mapping[str, Doubt] = field(default_factory=dict)


class Recovery(Protocol):
    """Prove that the processes are in step, free those that wait in vain, restore what a failure has broken."""

    def prove(self, *, repair: bool, say: Say) -> Settled:
        """Prove that all are in step after a cell, or repair them.

        Args:
          repair: Whether they may be repaired.
          say: Called with lines while it lasts.
        """

    def free(self) -> Remedies:
        """Return the means, besides an interrupt, for processes that do not leave a cell."""

    def restore(self, *, progress: StartProgress) -> str:
        """Bring all in step because a person asks for it, and start others in the place of those that have ended.

        Returns:
          What was done, in one line, and one more for each thing that is not as before.

        Raises:
          NbdistError: It is not possible, or did not succeed; the session stays as it is.
        """
