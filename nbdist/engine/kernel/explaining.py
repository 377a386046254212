"""The parts of a call that a person wrote: its function and arguments are evaluated, the call is not run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from nbdist.engine.kernel.together import evaluate
from nbdist.errors import ArrayError

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident


def called(
    resident: Resident, expression: str, *, number: int | None
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the function and the arguments of a call such as `step(params, batch)`.

    Args:
      resident: The state of this engine.
      expression: The call; its function and arguments may be any expressions.
      number: As for `evaluate`.

    Raises:
      ArrayError: The expression is no call, or a part of it raised.
    """
    function, arguments, named = evaluate(resident, parts(expression), number=number)
    return function, arguments, named


def parts(expression: str) -> str:
    """Rewrite `step(x, *more, a=1, **rest)` as `(step, (x, *more), {'a': 1, **rest})`.

    Raises:
      ArrayError: The expression is no call.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ArrayError(f"{expression!r} is no expression: {error.msg}.") from error
    if not isinstance(tree, ast.Call):
        raise ArrayError(
            f"{expression!r} is no call. Allowed: a function made by jax.jit with its arguments, such as "
            "step(params, batch). Nothing of it is run."
        )
    # No call of `dict`: the user may have set that name.
    named = ast.Dict(
        keys=[None if each.arg is None else ast.Constant(each.arg) for each in tree.keywords],
        values=[each.value for each in tree.keywords],
    )
    whole = ast.Tuple([tree.func, ast.Tuple(tree.args, ast.Load()), named], ast.Load())
    return ast.unparse(ast.fix_missing_locations(ast.Expression(whole)))
