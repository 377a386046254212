"""A model's layout as a table: each variable with the rule that placed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.contract.snapshot import Distribution, Mesh, Model, Variable
from nbdist.notation import axes_text, entries_text
from nbdist.quantities import array_type_text, bytes_text, count_text
from nbdist.view.text.frameworks import distribution_text, model_text
from nbdist.view.text.table import columns

MISSED = "whole on every device: no rule matched it"
DIFFERS = "not laid out as its rule asks"

_SIGNS = {MISSED: "!", DIFFERS: "~"}


def layout_text(
    model: Model, distributions: Sequence[Distribution], meshes: Mapping[str, Mesh]
) -> str:
    """Return the distributions, the devices' bytes, and a row for each variable, flagged ones first.

    Nothing is left out or shortened: people write rules from the paths it shows.

    Args:
      model: As one process described it, or all.
      distributions: The distributions that are set; none where none is.
      meshes: By id.
    """
    heads = [distribution_text(one, meshes) for one in distributions] or ["no distribution is set"]
    problems = [one.problem for one in distributions if one.problem is not None]
    ruled = any(one.rules for one in distributions)
    # A stable sort: within each kind the model's own order stays.
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
    # A layout may name fewer dimensions than there are: the rest is whole.
    asked = tuple(axis or "" for axis in variable.axes) + ("",) * len(held)
    return DIFFERS if variable.spec is None or asked[: len(held)] != held else None


def _table(variables: Sequence[Variable], *, ruled: bool) -> list[str]:
    rules = ruled or any(variable.axes for variable in variables)
    signs = any(flag(variable) for variable in variables)
    rows = [_HEADINGS, *(_row(variable, ruled=ruled) for variable in variables)]
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
"""The columns that are empty where there are no rules."""


def _row(variable: Variable, *, ruled: bool) -> list[str]:
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
