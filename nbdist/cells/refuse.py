"""Cells that may run while the processes are not in step: those that compute nothing."""

from __future__ import annotations

import ast

from nbdist.cells.facts import Facts
from nbdist.errors import SessionError

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
