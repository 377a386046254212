"""Cells that may run while a value could be wrong: those that compute nothing, or set it again."""

from __future__ import annotations

import ast

from nbdist.cells.facts import Facts
from nbdist.errors import SessionError
from nbdist.quantities import names_text

HARMLESS = frozenset({"print", "len", "type", "repr", "str", "dir", "vars", "id"})
"""Functions that may be called. What walks over an array, such as `list`, computes each of its elements."""


def refuse_computing(code: str, facts: Facts) -> None:
    """Lets pass what only looks at values that are there.

    Raises:
      SessionError: The cell could compute, and its collectives could mix up values.
    """
    if not computes(code):
        return
    why = f": {facts.why}" if facts.why else ""
    raise SessionError(
        f"The processes have not been in step since cell {facts.since}{why}. A cell that computes could give "
        "wrong numbers, so it was not run; a cell that only reads (print(x), x.shape) still runs. "
        f"{facts.remedy}"
    )


def computes(code: str) -> bool:
    """Whether a cell could use a device: anything but names, attributes, constants, printing and `del NAME`.

    An attribute of an array such as `x.T` computes; `x.shape`, `x.dtype`, `x.sharding` and their like do not.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # magics and shell commands among it: nobody knows what they do
    return not all(map(_is_harmless, ast.walk(tree)))


METADATA = frozenset({"shape", "dtype", "sharding", "spec", "mesh", "ndim", "size", "nbytes"})

_PLAIN = (
    *(ast.Module, ast.Expr, ast.Name, ast.Constant, ast.Load, ast.JoinedStr, ast.FormattedValue),
    *(ast.Tuple, ast.List, ast.Pass, ast.Del),
)


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in METADATA
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in HARMLESS
    if isinstance(node, ast.Delete):  # makes room for the copies of a repair
        return all(isinstance(target, ast.Name) for target in node.targets)
    # `**x` walks over whatever x is.
    if isinstance(node, ast.keyword):
        return node.arg is not None
    if isinstance(node, ast.Dict):
        return None not in node.keys
    return isinstance(node, _PLAIN)


def refuse_unsure(code: str, facts: Facts) -> frozenset[str]:
    """Lets pass what sets names of new processes again, what needs none, and what only looks at values.

    Returns:
      Names that the cell sets.

    Raises:
      SessionError: The cell may use what is not what it was.
    """
    bound, read = _bound(code), _read(code)
    left = {name: where for name, where in facts.unsure.items() if name not in bound}
    if not left or not computes(code) or (bound & facts.unsure.keys() and not read & left.keys()):
        return bound
    places: dict[str, list[str]] = {}
    for name, where in left.items():
        places.setdefault(where, []).append(name)
    listed = "; ".join(f"{names_text(names)} {where}" for where, names in places.items())
    raise SessionError(
        f"This cell was not run, since it may use values that are not those of before: {listed}. Set them again "
        "(for the next time in a function with @nbdist.on_recover), or run the cell once more to go on with them "
        "as they are."
    )


def _bound(code: str) -> frozenset[str]:
    """Names that a cell sets for sure; none of what is no Python."""
    return frozenset(
        target.id
        for statement in _statements(code)
        for target in _targets(statement)
        if isinstance(target, ast.Name)
    )


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return [one for target in statement.targets for one in _parts(target)]
    if isinstance(statement, ast.Delete):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) and statement.value else []


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [one for part in target.elts for one in _parts(part)]
    return [target]


def _read(code: str) -> frozenset[str]:
    return frozenset(
        node.id
        for statement in _statements(code)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
