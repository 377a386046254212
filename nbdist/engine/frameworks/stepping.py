"""Interfaces to a framework whose processes can be kept in step and repaired in place."""

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
        """The ports at which this process accepts connections for collectives."""

    def meet(self, others: Collection[int]) -> None:
        """Take the ports at which the other processes accept connections for collectives."""

    def sent(self) -> Sent:
        """Return counts of the programs sent to devices of other processes since all were last in step."""

    def sent_so_far(self, main: MainThread) -> Sent:
        """Return the same as `sent` in the middle of a cell, without the main thread's help."""

    def labels(self) -> Labels:
        """Return the names of the programs sent since all were last in step, and their collectives."""

    def trail(self) -> Trail:
        """Return the counts of `sent`, and which programs these were."""

    def under_way(self, common: int) -> UnderWay:
        """Return how many arrays of the programs up to serial `common` are not computed yet, and the progress."""

    def begin_cell(
        self,
        run: int,
        targets: Collection[int],
        namespace: dict[str, Any],
        *,
        in_step: Sequence[int] | None,
        code: bool = True,
    ) -> None:
        """Begin a cell, or a round of copies; called on the main thread."""

    def end_cell(self, number: int, *, failed: bool, compared: bool) -> None:
        """End a cell or an expression whose code has ended; called on the main thread."""

    def prove(self, number: int, *, timeout_s: float, compared: bool) -> Proven:
        """Take part in a proof that all processes are in step."""

    def abandon(self) -> None:
        """End the wait of the main thread for a proof, from any thread."""

    def cut(self) -> int:
        """End all collectives that wait, from any thread; return how many. A repair must follow."""


class Repairs(Protocol):
    """One repair of this process, in parts that all processes take together.

    `begun` says whether the back end has been taken down; `saved` is the result of `save`, None before.
    """

    begun: bool
    saved: Saved | None

    def save(self, common: int) -> Saved:
        """Copy all that the back end holds; change nothing."""

    def leave(self) -> None:
        """Take the back end down."""

    def rejoin(self, arguments: Mapping[str, Any]) -> None:
        """Join the other processes again, and start the back end."""

    def restore(
        self, lost: Collection[str], unnamed: Collection[Origin], generation: int
    ) -> Restored:
        """Make everything again on the new back end, except the lost arrays."""
