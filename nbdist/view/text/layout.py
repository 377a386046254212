"""A model's layout as a table: each variable with the rule that placed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.notation import axes_text, entries_text
from nbdist.quantities import array_type_text, bytes_text, count_text
from nbdist.shorten import SMALLEST_WIDTH, shorten
from nbdist.snapshot import Distribution, Mesh, Model, Variable
from nbdist.view.text.frameworks import distribution_text, model_text
from nbdist.view.text.table import ROWS, WIDTH, columns

MISSED = "whole on every device: no rule matched it"
DIFFERS = "not laid out as its rule asks"


def layout_text(
    model: Model,
    distributions: Sequence[Distribution],
    meshes: Mapping[str, Mesh],
    *,
    width: int = WIDTH,
) -> str:
    """What is set, what the devices hold, and a row for each variable, flagged ones first.

    Args:
      model: As one process described it, or all.
      distributions: Those that are set; none where none is.
      meshes: By id.
      width: Characters a line; longer paths are shortened in the middle.
    """
    heads = [distribution_text(one, meshes) for one in distributions] or ["no distribution is set"]
    problems = [one.problem for one in distributions if one.problem is not None]
    ruled = any(one.rules for one in distributions)
    # A stable sort: within each kind the model's own order stays.
    variables = sorted(model.variables, key=lambda variable: flag(variable) is None)
    shown = variables[:ROWS]
    lines = [model_text(model), *heads, *problems, *_table(shown, ruled=ruled, width=width)]
    left_out = len(variables) - len(shown) + model.variables_omitted
    if left_out:
        lines.append(f"… and {count_text(left_out, 'more variable')}")
    return "\n".join([*lines, *_unmatched(model)])


def flag(variable: Variable) -> str | None:
    """What is wrong with a variable; None where nothing is."""
    if variable.missed:
        return MISSED
    if variable.axes is None:
        return None
    held = tuple(",".join(axes) for axes in variable.spec or ())
    # A layout may name fewer dimensions than there are: the rest is whole.
    asked = tuple(axis or "" for axis in variable.axes) + ("",) * len(held)
    return DIFFERS if variable.spec is None or asked[: len(held)] != held else None


def _table(variables: Sequence[Variable], *, ruled: bool, width: int) -> list[str]:
    rules = ruled or any(variable.axes for variable in variables)
    facts = columns(
        [_HEADINGS if rules else _HEADINGS[:2] + _HEADINGS[4:]]
        + [_facts(variable, ruled=ruled, rules=rules) for variable in variables],
        right=(5 if rules else 3,),
    )
    room = max(width - max(map(len, facts)) - 2, SMALLEST_WIDTH)
    paths = shorten([variable.path for variable in variables], room)
    rows = zip(["variable", *paths], facts, strict=True)
    return columns([[path, fact] for path, fact in rows])


_HEADINGS = ["type", "group", "rule", "asks for", "lies", "device", ""]


def _facts(variable: Variable, *, ruled: bool, rules: bool) -> list[str]:
    rule = variable.rule or ("no rule" if ruled else "")
    asked = axes_text(variable.axes) if variable.axes is not None else ""
    return [
        array_type_text(variable.dtype, variable.shape),
        variable.group,
        *([rule, asked] if rules else []),
        entries_text(variable.spec) if variable.spec is not None else "no mesh",
        bytes_text(variable.device_bytes),
        flag(variable) or "",
    ]


def _unmatched(model: Model) -> list[str]:
    if not model.unmatched:
        return []
    words = (
        "rule that matches nothing:" if len(model.unmatched) == 1 else "rules that match nothing:"
    )
    return [words, *(f"  {pattern}" for pattern in model.unmatched)]
