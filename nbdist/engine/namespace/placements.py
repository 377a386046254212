"""Interfaces to a framework for a namespace on its way: `Placements` for arrays and devices, `Objects` for others.

Another process has devices of its own, and lacks what a framework keeps for a process: the framework says how
objects like those here are made there. It gives one object of each interface for as long as a namespace is on its
way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.namespace.things import Mine, ThingKind
from nbdist.engine.values.arrays import ReadablePiece

Parts = list[Any] | None
"""Pieces of an array, in the order in which they were wanted; None where it has no values any more."""


class Placements(Protocol):
    """Arrays and devices of a framework: how another process can make objects of its own like them."""

    def is_array(self, value: Any) -> bool:
        """Return whether a value is an array of the framework, which is sent apart from its holder."""

    def describe(self, array: Any, number: int) -> NamespaceArray:
        """Return a description of an array for other processes; `number` is its number in the pickles."""

    def placement(self, array: Any) -> Any:
        """Return how an array lies on devices, in a form that can be pickled with `reference`."""

    def pieces(self, array: Any) -> Sequence[ReadablePiece]:
        """Return the parts that this process has, in the description's order; none of an array without values."""

    def find(self, keys: Collection[str]) -> Mapping[str, Any]:
        """Return the arrays of this process that have these keys."""

    def spanning(self) -> Mapping[str, Any]:
        """Return arrays on several processes that have values and a known origin, by path."""

    def own(self) -> Mapping[str, Any]:
        """Return arrays of this process alone that have values, by path."""

    def whole(self, array: Any) -> ReadablePiece:
        """Return all of an array of this process alone."""

    def now(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Origin]:
        """Return the origins of arrays now at these paths, if of the same type; also of those without values."""

    def wanted(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Sequence[Box]]:
        """Return the parts that belong here of the arrays now at these paths, if of the same type."""

    def go_back(
        self, arrays: Mapping[str, NamespaceArray], parts: Mapping[str, Mapping[Box, Any]]
    ) -> list[str]:
        """Make arrays of these parts, laid out as those now at their paths; re-point references to the new arrays.

        Returns:
          All paths that lead to the new arrays.
        """

    def origins(self) -> frozenset[Origin]:
        """Return the origins of all arrays on several processes that have values, also of those without a path."""

    def newer(self, there: Collection[Origin]) -> list[str]:
        """Return what leads to arrays on several processes of other origins: paths, or objects that hold them."""

    def reference(self, value: Any) -> Any | None:
        """Return the stand-in for a device, a mesh or a sharding in a pickle; None for anything else."""

    def referent(self, reference: Any) -> Any:
        """Return this process's own object for a stand-in that `reference` has returned on another."""

    def place(
        self, described: NamespaceArray, placement: Any
    ) -> tuple[list[list[list[int]]], Callable[[Parts], Any]]:
        """Return the parts of an array that belong here, and a function that makes the array of them."""

    def changes(self) -> Sequence[str]:
        """Return a sentence for each object described that will be different on the other process."""

    def settings(self) -> Any:
        """Return what the framework keeps for the process beside objects with names; pickled with `reference`."""

    def set(self, settings: Any) -> None:
        """Set what `settings` has returned on another process."""

    def begin(self, generation: int) -> None:
        """Note that this process is new, and that the back end of all processes has this number."""

    def came_from(self, array: Any, origin: Origin) -> None:
        """Note the origin that an array made here has on the processes that have lived on."""


class Objects(Protocol):
    """Objects of a framework that are not pickled in their own way, and the framework's settings.

    Attributes:
      modules: Library modules that a new process imports first, where the other process has imported them.
    """

    modules: tuple[str, ...]

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object, as `object.__reduce_ex__` does; None for the object's own way."""

    def settings(self) -> Any:
        """Return what the framework keeps for the process beside objects with names; pickled as it is."""

    def set(self, settings: Any) -> None:
        """Set what `settings` has returned on another process, once all objects have come from there."""

    def things(self, mine: Mine) -> Sequence[ThingKind]:
        """Return the user's registrations and settings in the framework that are compared one by one."""

    def unpickling(self) -> AbstractContextManager[object]:
        """Return a context that is open while classes of the user's come from another process."""
