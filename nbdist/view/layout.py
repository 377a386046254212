"""Layout of a model's variables on its devices, each with the rule that placed it, as `%dist_layout` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from nbdist.contract.calls.arrays import ModelFound
from nbdist.contract.snapshot import (
    Distribution,
    Mesh,
    Model,
    Snapshot,
    Variable,
)
from nbdist.notation import (
    array_type_text,
    axes_text,
    bytes_text,
    columns,
    count_text,
    entries_text,
    processes_text,
)
from nbdist.view.arrays import Reported
from nbdist.view.status import distribution_text, model_text

MISSED = "whole on every device: no rule matched it"
DIFFERS = "not laid out as its rule asks"
"""The problems of a variable, in words."""

_SIGNS = {MISSED: "!", DIFFERS: "~"}


def layout_text(
    model: Model, distributions: Sequence[Distribution], meshes: Mapping[str, Mesh]
) -> str:
    """Return distributions, the bytes of a model on devices, and a row for each variable, flagged ones first.

    A row has the rule that placed the variable. Nothing is left out or shortened, since people write rules from
    the paths that are shown.

    Args:
      model: The model as one process has described it, or all have.
      distributions: The distributions that are set.
      meshes: Meshes by id, among them those of the distributions.
    """
    heads = [distribution_text(one, meshes) for one in distributions] or ["no distribution is set"]
    problems = [one.problem for one in distributions if one.problem is not None]
    ruled = any(one.rules for one in distributions)
    # The sort is stable: within each kind the model's own order stays.
    variables = sorted(model.variables, key=lambda variable: flag(variable) is None)
    lines = [model_text(model), *heads, *problems, *_table(variables, ruled=ruled)]
    if model.variables_omitted:
        lines.append(f"… and {count_text(model.variables_omitted, 'more variable')}")
    return "\n".join([*lines, *_signs(variables), *_unmatched(model)])


def flag(variable: Variable) -> str | None:
    """Return the problem of a variable; None where there is none."""
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


_HEADINGS = ["", "variable", "type", "group", "rule", "asks for", "lies", "device"]
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
        axes_text(variable.axes) if variable.axes is not None else "",
        entries_text(variable.spec) if variable.spec is not None else "no mesh",
        bytes_text(variable.device_bytes),
    ]


def _signs(variables: Sequence[Variable]) -> list[str]:
    """Return the meanings of the signs that stand before rows."""
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
