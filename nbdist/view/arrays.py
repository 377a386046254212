"""Arrays and models as users get them: shards, layouts and summaries, from what processes answer or last reported.

Reports are shown while no process can be asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from nbdist import summary
from nbdist.contract.calls.arrays import ArraysFound, ModelFound, Summary
from nbdist.contract.snapshot import Array, Distribution, Mesh, Model, Snapshot
from nbdist.errors import ArrayError
from nbdist.notation import count_text, processes_text
from nbdist.pieces import meshes_of
from nbdist.view.branches import within
from nbdist.view.text import layout_text, shards_text, tree_text


def shown_values(path: str, answers: Mapping[int, Summary]) -> dict[str, Any]:
    """Return the summary of one array for the view, from each process's part of it.

    Returns:
      `text`, and `picture`, which is None if there is nothing to draw.

    Raises:
      ArrayError: There is no array under this path, or it is still being computed, or it has no numbers, or the
        processes have different arrays.
    """
    states = {process_id: answer.state for process_id, answer in answers.items()}
    computing = [p for p, state in states.items() if state == "computing"]
    if computing:
        raise ArrayError(f"{path} is still being computed on {processes_text(computing)}.")
    there = {p: answer for p, answer in answers.items() if answer.state == "shown"}
    if not there:
        raise ArrayError(f"There is no array {path} any more.")
    first = min(there)
    # An array that one process has for itself is no part of another process's array.
    alone = there[first].whole
    shown = [there[first]] if alone else [one for one in there.values() if not one.whole]
    parts = [one.part for one in shown if one.part is not None]
    if len(parts) < len(shown):
        raise ArrayError(f"{path} has no values that could be shown.")
    if any(summary.facts(part) != summary.facts(parts[0]) for part in parts):
        raise ArrayError(f"{path} is not the same array on {processes_text(there)}.")
    text = summary.text(parts)
    if alone and len(answers) > 1:
        text = f"of process {first}; others have their own\n{text}"
    places = [one.places for one in shown if one.places is not None]
    picture = summary.picture(places) if len(places) == len(shown) else None
    return {"text": text, "picture": picture}


class Reported(ABC):
    """An answer of one process, or what is `seen` in the last reports of all; its `remark` then says so."""

    __slots__ = ()

    remark: str

    @classmethod
    def seen(cls, path: str, snapshot: Snapshot, *, while_: str) -> Self | None:
        """Return what was last reported under a path; None if nothing was.

        Args:
          path: The expression that reaches it from the namespace.
          snapshot: The snapshot with the reports.
          while_: What goes on meanwhile, for the remark.
        """
        remark = f"as last reported, while {while_}"
        return cls._found(path, snapshot, meshes_of(snapshot), remark)

    @classmethod
    @abstractmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the reported object under the path with this remark, or a longer one; None if none."""

    def _remarked(self, text: str) -> str:
        """Return a text below the remark, if there is one."""
        return f"{self.remark}\n{text}" if self.remark else text


@dataclass(frozen=True, slots=True)
class Shards(Reported):
    """The answer to `%dist_shards`: the pieces of one array, device by device, or the arrays of a tree.

    Attributes:
      expression: The expression with which the paths of the arrays begin.
      arrays: The arrays of a tree in its order; a value that is itself an array is the only one.
      meshes: The meshes to which the arrays refer, by id.
      same: By path, the path of an earlier array that is this very object.
      left_out: How many more arrays the tree has, and how many containers were not looked into.
      snapshot: The snapshot with the devices' platforms.
      remark: A remark that must be shown with the arrays; empty if there is none.
    """

    expression: str
    arrays: tuple[Array, ...]
    meshes: Mapping[str, Mesh]
    same: Mapping[str, str]
    left_out: tuple[int, int]
    snapshot: Snapshot
    remark: str = ""

    @classmethod
    def of(cls, found: ArraysFound, snapshot: Snapshot) -> Shards:
        """Return the arrays of a process's answer.

        :meta private:
        """
        return cls(
            found.expression,
            found.arrays,
            {mesh.id: mesh for mesh in found.meshes},
            found.same,
            (found.omitted, found.closed),
            snapshot,
        )

    @classmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the array under the path, or the arrays below it."""
        arrays = tuple(array for array in snapshot.arrays if within(array.path, path))
        if not arrays:
            return None
        omitted = snapshot.arrays_omitted
        if omitted:
            remark += f"; of {count_text(omitted, 'more array')} nothing is reported"
        return cls(path, arrays, meshes, {}, (0, 0), snapshot, remark)

    def text(self, *, by_bytes: bool = False) -> str:
        """Return the text that `%dist_shards` prints.

        Args:
          by_bytes: Whether the arrays of a tree come in the order of the bytes that a device needs, the most
            first.
        """
        return self._remarked(self._text(by_bytes=by_bytes))

    def _text(self, *, by_bytes: bool) -> str:
        if all(array.path == self.expression for array in self.arrays):
            # One array, or one for each version that processes have.
            versions = (shards_text(one, self.meshes, self.snapshot) for one in self.arrays)
            return "\n".join(versions)
        return tree_text(
            self.expression,
            self.arrays,
            self.meshes,
            same=self.same,
            left_out=self.left_out,
            by_bytes=by_bytes,
        )

    def __repr__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True)
class Layout(Reported):
    """The answer to `%dist_layout`: a model's variables, each with the rule that placed it, and the distributions.

    `meshes` are those of the model and of the distributions, by id. `remark` must be shown with the layout; it is
    empty if there is none.
    """

    model: Model
    distributions: tuple[Distribution, ...]
    meshes: Mapping[str, Mesh]
    snapshot: Snapshot
    remark: str = ""

    @classmethod
    def of(cls, found: ModelFound, snapshot: Snapshot) -> Layout:
        """Return the layout from a process's answer.

        :meta private:
        """
        meshes = {mesh.id: mesh for mesh in found.meshes}
        return cls(found.model, found.distributions, meshes, snapshot)

    @classmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the layout of a model; if it differs, that of the first processes."""
        models = [model for model in snapshot.models if model.path == path]
        if not models:
            return None
        if len(models) > 1:
            remark += f"; this is that of {processes_text(models[0].processes)}, others differ"
        return cls(models[0], snapshot.distributions, meshes, snapshot, remark)

    def text(self) -> str:
        """Return the text that `%dist_layout` prints."""
        return self._remarked(layout_text(self.model, self.distributions, self.meshes))

    def __repr__(self) -> str:
        return self.text()
