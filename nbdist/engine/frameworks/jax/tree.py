"""Arrays of a tree, each described as in a report."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nbdist.contract.calls.arrays import ArraysFound
from nbdist.engine.frameworks import unwrapped
from nbdist.engine.frameworks.jax.arrays import check_array
from nbdist.engine.frameworks.jax.describe import Descriptions
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.frameworks.walking import libraries, packages
from nbdist.engine.probe.lent import Lent
from nbdist.engine.probe.walk import Bounds, Walk
from nbdist.errors import ArrayError
from nbdist.quantities import not_looked_at

ALL = Bounds(
    depth=1000,
    plain_depth=16,
    containers=1_000_000,
    containers_in_one=1_000_000,
    items=10_000_000,
)
"""Bounds of a walk over one tree; wide, since whoever asks for a tree wants all of it."""

MOST_LISTED = 20_000
"""Most arrays that are described; further ones are only counted."""

ROOT = "value"


def walk_tree(value: object, found: Callable[[str, Any], bool], *, most: int) -> dict[str, int]:
    """Call `found` with each array of a tree and the rest of the expression that reaches it.

    Args:
      value: An array, or an object that holds arrays: a dict, list, dataclass, pytree, or module of a framework.
      found: Called with the rest of the expression, and the array or `Lent`; returns whether the array counts.
      most: The number of arrays after which no more are looked at.

    Returns:
      The numbers of `omitted` arrays, and of `closed` containers, which lie too deep or are too many.
    """
    import jax

    def note(path: str, met: Any) -> bool:
        return found(path.removeprefix(ROOT), met)

    walk = Walk(
        found=note,
        mesh=lambda _: None,
        arrays=(jax.Array,),
        meshes=(),
        packages=packages(),
        libraries=libraries(),
        bounds=replace(ALL, arrays=most),
    )
    return {"omitted": walk.run({ROOT: value}), "closed": walk.closed}


def rooted(expression: str) -> str:
    """Return the expression, in brackets if an index or attribute could not follow it otherwise."""
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:  # IPython's own syntax
        return f"({expression})"
    closed = isinstance(
        node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.List | ast.Dict
    )
    return expression if closed else f"({expression})"


def describe_tree(value: object, expression: str) -> ArraysFound:
    """Return the arrays of a tree in the form of `explain`.

    Raises:
      ArrayError: The tree holds no arrays.
    """
    descriptions, root = Descriptions(Meshes()), rooted(expression)
    first: dict[int, str] = {}
    same: dict[str, str] = {}

    def note(rest: str, met: Any) -> bool:
        array = met.array if type(met) is Lent else met
        if array is None or not descriptions.add(root + rest, array, lent=met is not array):
            return False
        if first.setdefault(id(array), root + rest) != root + rest:
            same[root + rest] = first[id(array)]
        return True

    left_out = walk_tree(value, note, most=MOST_LISTED)
    if not descriptions.arrays():
        kind, rest = type(value).__name__, not_looked_at(left_out["omitted"], left_out["closed"])
        holds = f"has no array that can be shown; {rest}" if rest else "holds no JAX arrays"
        raise ArrayError(f"{expression!r} (of type {kind}) {holds}.")
    return ArraysFound(
        expression=root,
        arrays=descriptions.arrays(),
        meshes=descriptions.meshes(),
        same=same,
        omitted=left_out["omitted"],
        closed=left_out["closed"],
    )


def explain(value: Any, expression: str) -> ArraysFound:
    """Return where the pieces of arrays lie: of an array, a variable's array, or all arrays of a tree or module.

    The paths begin with `expression`, in brackets where it needs them.

    Raises:
      ArrayError: The value holds no arrays, or is an array without values.
    """
    import jax

    value = unwrapped(value)
    check_array(jax, value, expression, partial_sums=True)
    if isinstance(value, jax.Array):
        described, meshes = describe(value)
        array = replace(described, path=expression)
        return ArraysFound(expression=expression, arrays=(array,), meshes=meshes)
    return describe_tree(value, expression)


def tree(value: object, expression: str) -> ArraysFound | None:
    """Return the answer of `describe_tree`; None if the value holds no arrays."""
    with contextlib.suppress(ArrayError):
        return describe_tree(value, expression)
    return None
