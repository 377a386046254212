"""What a framework offers where its processes can be kept in step, and repaired in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from nbdist.contract.calls.stepping import (
    Labels,
    Origin,
    Proven,
    Restored,
    Saved,
    Trail,
    UnderWay,
)
from nbdist.contract.sent import Sent
from nbdist.engine.cell.main_thread import MainThread


class Steps(Protocol):
    """One process's part in staying in step.

    `unsettled`: a cell has failed here since the processes were last known to be in step.
    """

    unsettled: bool

    @property
    def ports(self) -> frozenset[int]:
        """The ports on which this process takes the connections of collectives."""

    def meet(self, others: Collection[int]) -> None:
        """Learns the ports of the other processes."""

    def sent(self) -> Sent:
        """What was sent to devices of other processes since all were last in step."""

    def sent_so_far(self, main: MainThread) -> Sent:
        """As `sent`, in the middle of a cell, past the main thread."""

    def labels(self) -> Labels:
        """What these programs are called, and which collectives they have."""

    def trail(self) -> Trail:
        """What was sent, and which programs these were."""

    def under_way(self, common: int) -> UnderWay:
        """What is computed of the programs up to the serial `common`, and how far that is."""

    def begin_cell(
        self,
        run: int,
        targets: Collection[int],
        namespace: dict[str, Any],
        *,
        in_step: Sequence[int] | None,
        code: bool = True,
    ) -> None:
        """Called on the main thread when a cell begins, or a round of copies."""

    def end_cell(self, number: int, *, failed: bool, compared: bool) -> None:
        """Called on the main thread when the code of a cell, or an expression, has ended."""

    def prove(self, number: int, *, timeout_s: float, compared: bool) -> Proven:
        """Takes part in a proof."""

    def abandon(self) -> None:
        """Ends the wait of the main thread for a proof, from any thread."""

    def cut(self) -> int:
        """Ends all collectives that wait, from any thread; a repair must follow."""


class Repairs(Protocol):
    """One repair of this process, in parts that all processes take together.

    `begun` says whether the back end has been taken down; `saved` is what `save` answered, None before.
    """

    begun: bool
    saved: Saved | None

    def save(self, common: int) -> Saved:
        """Copies what the back end holds; changes nothing."""

    def leave(self) -> None:
        """Takes the back end down."""

    def rejoin(self, arguments: Mapping[str, Any]) -> None:
        """Joins the others anew."""

    def restore(
        self, lost: Collection[str], unnamed: Collection[Origin], generation: int
    ) -> Restored:
        """Makes everything anew on the new back end."""
