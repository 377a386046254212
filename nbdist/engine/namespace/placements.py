"""What a framework says of objects that belong to devices, so that another process can make its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.values.arrays import Piece

Parts = list[Any] | None
"""The pieces of an array, in the order in which they were wanted; None: it has no values any more."""


class Placements(Protocol):
    """One framework's, on one process, for as long as a namespace is on its way."""

    def is_array(self, value: Any) -> bool:
        """Whether this is an array of the framework, which travels apart from what holds it."""

    def describe(self, array: Any, number: int) -> NamespaceArray:
        """What others are to know of it; `number` is its own in the pickles."""

    def placement(self, array: Any) -> Any:
        """How it lies, as what can be pickled with `reference`."""

    def pieces(self, array: Any) -> Sequence[Piece]:
        """The parts that this process has, in the order of the description; none where it has no values."""

    def find(self, keys: Collection[str]) -> Mapping[str, Any]:
        """The arrays of this process that have these keys."""

    def spanning(self) -> Mapping[str, Any]:
        """Arrays on several processes that have values and a known origin, by the path that leads to them."""

    def own(self) -> Mapping[str, Any]:
        """Arrays of this process alone that have values, by the path that leads to them."""

    def whole(self, array: Any) -> Piece:
        """All of an array of this process alone."""

    def now(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Origin]:
        """Which program computed what is at these paths now, if of the same type; also where it has no values."""

    def wanted(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Sequence[Box]]:
        """Which parts of what is now at these paths belong here; of what is of the same type alone."""

    def go_back(
        self, arrays: Mapping[str, NamespaceArray], parts: Mapping[str, Mapping[Box, Any]]
    ) -> list[str]:
        """Makes arrays of these parts, laid out as what is at their paths now, and re-points references to that.

        Returns:
          All paths that lead to them.
        """

    def origins(self) -> frozenset[Origin]:
        """Those of all arrays on several processes that have values, also where no path leads to them."""

    def newer(self, there: Collection[Origin]) -> list[str]:
        """What leads to arrays on several processes of other origins: paths, and what holds the rest."""

    def reference(self, value: Any) -> Any | None:
        """What stands for a device, a mesh or a sharding in a pickle; None for anything else."""

    def referent(self, reference: Any) -> Any:
        """This process's own object for what `reference` has given on another."""

    def place(
        self, described: NamespaceArray, placement: Any
    ) -> tuple[list[list[list[int]]], Callable[[Parts], Any]]:
        """Which parts of an array belong here, and how to make it of them."""

    def changes(self) -> Sequence[str]:
        """What of all that was described will not be as here, a sentence each."""

    def settings(self) -> Any:
        """What the framework keeps for the process beside objects with names; pickled with `reference`."""

    def set(self, settings: Any) -> None:
        """Takes over what `settings` has given on another process."""

    def begin(self, generation: int) -> None:
        """This process is new, and the back end of all has this number."""

    def came_from(self, array: Any, origin: Origin) -> None:
        """Which program, on the processes that have lived on, computed an array that was made here."""
