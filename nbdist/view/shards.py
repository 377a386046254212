"""Views of arrays for users: shards, values and NaN counts, and the layout of a model's variables.

The data are the processes' answers or, while no process can be asked, their last reports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from nbdist import summary
from nbdist.contract.calls.inspection import ArrayNan, ArraysFound, ModelFound, NanCounts, Summary
from nbdist.contract.snapshot import Array, Distribution, Mesh, Model, Snapshot, Variable
from nbdist.errors import ArrayError
from nbdist.notation import (
    ROWS,
    array_type_text,
    asked_text,
    bytes_text,
    columns,
    count_text,
    entries_text,
    names_text,
    not_looked_at,
    processes_text,
)
from nbdist.pieces import Part, meshes_of, piece_bytes, pieces, sentence
from nbdist.view.mesh import array_texts, part_text
from nbdist.view.status import DeviceNames, distribution_text, model_text
from nbdist.view.tree import tree_text, within

_DEVICES = 4
"""The most devices named for each shard; replicas on more are counted."""


def shards_text(array: Array, meshes: Mapping[str, Mesh], snapshot: Snapshot) -> str:
    """Return the layout of one array, then a row for each shard with the devices that hold it.

    Args:
      array: Any array, even one that the snapshot does not name.
      meshes: Meshes by id, including the array's mesh.
      snapshot: The snapshot with all devices.

    Raises:
      SpecError: The array's sharding does not fit its mesh.
    """
    names = DeviceNames(device.key for device in snapshot.devices)
    parts = pieces(array, meshes)
    rows = [_part_row(array, part, names) for part in parts[:ROWS]]
    mesh = meshes[array.sharding.mesh] if array.sharding.kind == "named" else None
    lines = [
        "  ".join(array_texts(array, on=mesh)),
        sentence(array, meshes),
        *columns(rows, right=(1,)),
    ]
    if len(parts) > ROWS:
        lines.append(f"… and {len(parts) - ROWS} more shards")
    return "\n".join(lines)


def _part_row(array: Array, part: Part, names: DeviceNames) -> list[str]:
    named = [names.short(key) for key in part.devices[:_DEVICES]]
    more = len(part.devices) - len(named)
    held = ", ".join(named) + (f" and {more} more" if more else "")
    own = array.sharding.kind == "per_process"
    return [part_text(part, own=own), bytes_text(piece_bytes(array, part.slices)), held]


def nan_text(expression: str, answers: Mapping[int, NanCounts]) -> str:
    """Return a table of the arrays that have NaN or infinite values, each followed by the shards that have them.

    Args:
      expression: The expression of the tree.
      answers: The counts of each process in its own shards.
    """
    arrays: dict[str, list[tuple[int, ArrayNan]]] = {}
    for process_id, answer in sorted(answers.items()):
        for array in answer.arrays:
            arrays.setdefault(array.path, []).append((process_id, array))
    counted = max(answer.looked for answer in answers.values())
    omitted = max(answer.omitted for answer in answers.values())
    closed = max(answer.closed for answer in answers.values())
    rest = not_looked_at(omitted, closed)
    if not arrays and not counted:
        return (
            f"{expression} has no array that can be counted; {rest}"
            if rest
            else f"{expression} holds no arrays"
        )
    rows, unknown = [], []
    for path, everywhere in arrays.items():
        if any(array.pieces is None for _, array in everywhere):
            unknown.append(path)
            continue
        rows += _nan_rows(path, everywhere)
    looked = count_text(counted, "array")
    lines = (
        columns([("array", "type", "NaN", "Inf"), *rows], right=(2, 3))
        if rows
        else [f"no NaN or Inf in {looked} of {expression}"]
    )
    if unknown:
        lines.append(f"without values, and not counted: {names_text(unknown)}")
    if rest:
        lines.append(rest)
    return "\n".join(lines)


def _nan_rows(
    path: str, everywhere: Sequence[tuple[int, ArrayNan]]
) -> list[tuple[str, str, str, str]]:
    """Return a row for the array and each shard with NaN or infinite values; empty if all are finite."""
    pieces = [
        (process_id, piece) for process_id, array in everywhere for piece in array.pieces or ()
    ]
    touched = [(p, piece) for p, piece in pieces if piece.nan or piece.inf]
    if not touched:
        return []
    first = everywhere[0][1]
    nan = sum(piece.nan for _, piece in pieces if piece.first)
    inf = sum(piece.inf for _, piece in pieces if piece.first)
    return [
        (path, array_type_text(first.dtype, first.shape), str(nan), str(inf)),
        *(
            (
                f"  process {process_id} · device {piece.device}",
                piece.index,
                str(piece.nan),
                str(piece.inf),
            )
            for process_id, piece in touched
        ),
    ]


def shown_values(path: str, answers: Mapping[int, Summary]) -> dict[str, Any]:
    """Return the summary of one array for the view, from each process's part of it.

    Returns:
      `text`, and `picture`, which is None if there is nothing to draw.

    Raises:
      ArrayError: There is no array under this path; or it is still being computed, is not numeric, or differs
        between processes.
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
    """One process's answer, or what the last reports of all processes say (`seen`); then `remark` says so."""

    __slots__ = ()

    remark: str

    @classmethod
    def seen(cls, path: str, snapshot: Snapshot, *, while_: str) -> Self | None:
        """Return what was last reported under a path; None if nothing was.

        Args:
          path: The expression that reaches the object from the namespace.
          snapshot: The snapshot with the reports.
          while_: What the processes are busy with, for the remark.
        """
        remark = f"as last reported, while {while_}"
        return cls._found(path, snapshot, meshes_of(snapshot), remark)

    @classmethod
    @abstractmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the reported object under the path, with this remark or a longer one; None if there is none."""

    def _remarked(self, text: str) -> str:
        """Return a text below the remark, if there is one."""
        return f"{self.remark}\n{text}" if self.remark else text


@dataclass(frozen=True, slots=True)
class Shards(Reported):
    """The answer to `%dist_shards`: the shards of one array, device by device, or the arrays of a tree.

    Attributes:
      expression: The expression with which the paths of the arrays begin.
      arrays: The arrays of a tree in its order; a value that is itself an array is the only one.
      meshes: The meshes to which the arrays refer, by id.
      same: For the path of an array listed twice, the path of the earlier entry that is the same object.
      left_out: How many more arrays the tree has, and how many containers were not looked into.
      snapshot: The snapshot with all devices.
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
          by_bytes: Whether to sort the arrays of a tree by the bytes that a device needs, largest first.
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


MISSED = "replicated on every device: no rule matched it"
DIFFERS = "not laid out as its rule asks"
"""The problems of a variable, in words."""

_SIGNS = {MISSED: "!", DIFFERS: "~"}


def layout_text(
    model: Model,
    distributions: Sequence[Distribution],
    meshes: Mapping[str, Mesh],
    names: DeviceNames,
) -> str:
    """Return distributions, the bytes of a model on devices, and a row for each variable, flagged ones first.

    A row has the rule that placed the variable. Nothing is left out or shortened, since people write rules from
    the paths that are shown.

    Args:
      model: The model as one process, or all processes, described it.
      distributions: The distributions that are set.
      meshes: Meshes by id, including those of the distributions.
      names: The names of the session's devices.
    """
    heads = [distribution_text(one, meshes) for one in distributions] or ["no distribution is set"]
    problems = [one.problem for one in distributions if one.problem is not None]
    ruled = any(one.rules for one in distributions)
    # The sort is stable: within each kind the model's own order stays.
    variables = sorted(model.variables, key=lambda variable: flag(variable) is None)
    lines = [model_text(model, names), *heads, *problems, *_table(variables, ruled=ruled)]
    if model.variables_omitted:
        lines.append(f"… and {count_text(model.variables_omitted, 'more variable')}")
    return "\n".join([*lines, *_signs(variables), *_unmatched(model)])


def flag(variable: Variable) -> str | None:
    """Return the problem of a variable; None if there is none."""
    if variable.missed:
        return MISSED
    if variable.axes is None:
        return None
    held = tuple(",".join(axes) for axes in variable.spec or ())
    # A layout may name fewer dimensions than there are; the others are whole.
    asked = tuple(axis or "" for axis in variable.axes) + ("",) * len(held)
    return DIFFERS if variable.spec is None or asked[: len(held)] != held else None


def _table(variables: Sequence[Variable], *, ruled: bool) -> list[str]:
    rules = ruled or any(variable.axes for variable in variables)
    signs = any(flag(variable) for variable in variables)
    rows = [_HEADINGS, *(_variable_row(variable, ruled=ruled) for variable in variables)]
    used = [
        index
        for index in range(len(_HEADINGS))
        if (signs or index != _SIGN) and (rules or index not in _RULES)
    ]
    shown = [[row[index] for index in used] for row in rows]
    return columns(shown, right=(len(used) - 1,))


_HEADINGS = ["", "variable", "type", "group", "rule", "asks for", "spec", "per device"]
_SIGN = 0
_RULES = (4, 5)
"""The columns that are empty if there are no rules."""


def _variable_row(variable: Variable, *, ruled: bool) -> list[str]:
    return [
        _SIGNS.get(flag(variable) or "", ""),
        variable.path,
        array_type_text(variable.dtype, variable.shape),
        variable.group,
        variable.rule or ("no rule" if ruled else ""),
        asked_text(variable.axes) if variable.axes is not None else "",
        entries_text(variable.spec) if variable.spec is not None else "no mesh",
        bytes_text(variable.device_bytes),
    ]


def _signs(variables: Sequence[Variable]) -> list[str]:
    """Return the legend of the signs in front of rows."""
    found = {flag(variable) for variable in variables}
    return [f"{sign} {meaning}" for meaning, sign in _SIGNS.items() if meaning in found]


def _unmatched(model: Model) -> list[str]:
    if not model.unmatched:
        return []
    words = (
        "rule that matches nothing:" if len(model.unmatched) == 1 else "rules that match nothing:"
    )
    return [words, *(f"  {pattern}" for pattern in model.unmatched)]


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
        """Return the layout of a model; if processes differ, the first processes' layout."""
        models = [model for model in snapshot.models if model.path == path]
        if not models:
            return None
        if len(models) > 1:
            remark += f"; this is that of {processes_text(models[0].processes)}, others differ"
        return cls(models[0], snapshot.distributions, meshes, snapshot, remark)

    def text(self) -> str:
        """Return the text that `%dist_layout` prints."""
        names = DeviceNames(device.key for device in self.snapshot.devices)
        return self._remarked(layout_text(self.model, self.distributions, self.meshes, names))

    def __repr__(self) -> str:
        return self.text()
