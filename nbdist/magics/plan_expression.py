"""`%dist_plan`: an expression, evaluated in the notebook or looked up on the processes, becomes a plan."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import Any

from nbdist.errors import ArrayError
from nbdist.rehearsal import ArrayPlan, make_plan, read_topology
from nbdist.session.session import Session


def plan_expression(
    expression: str,
    namespace: Mapping[str, Any],
    *,
    session: Session | None,
    specs: str | None,
    topology: str | None,
    devices: int | None,
    mesh: str | None,
    slices: int,
    memory: str | None,
) -> ArrayPlan:
    """Return the plan of an expression.

    Args:
      expression: A Python expression, evaluated in the notebook. If the notebook lacks one of its names and a
        session runs, the arrays of that name on the processes are planned.
      namespace: The names of the notebook.
      session: A session that runs; None if none does.
      specs: An expression that is evaluated in the notebook; None: what the arrays carry.
      topology: As for `nbdist.plan`, like all that follow.
      devices: The same.
      mesh: The same.
      slices: The same.
      memory: The same.

    Raises:
      OptionError: Something that cannot be.
      ArrayError: There are no such arrays, or a name is not known.
    """
    # Before the expression is evaluated, which may take long.
    pod = None if topology is None else read_topology(topology, slices=slices)
    asked = None if specs is None else _evaluated(specs, namespace, "--specs ")
    missing = _missing(expression, namespace)
    if missing is not None and session is not None:
        found = session.shards(expression)
        value, source, shards = None, "the processes", (found.arrays, found.meshes)
    else:
        value, source, shards = _evaluated(expression, namespace, ""), "this notebook", None
    return make_plan(
        value,
        asked,
        topology=pod,
        devices=devices,
        mesh=mesh,
        slices=slices,
        memory=memory,
        name=expression,
        source=source,
        shards=shards,
    )


def _evaluated(expression: str, namespace: Mapping[str, Any], option: str) -> Any:
    missing = _missing(expression, namespace)
    if missing is not None:
        raise ArrayError(
            f"{option}{expression}: this notebook has no name {missing!r}"
            + ("." if option else ", and no session runs that could have it.")
        )
    return eval(expression, dict(namespace))


def _missing(expression: str, namespace: Mapping[str, Any]) -> str | None:
    """The first name of an expression that the notebook does not have; None where it has all.

    Raises:
      ArrayError: It is no expression.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ArrayError(f"{expression!r} is no expression of Python: {error.msg}.") from None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    free = (node.id for node in names if isinstance(node.ctx, ast.Load) and node.id not in bound)
    return next((one for one in free if one not in namespace and not hasattr(builtins, one)), None)
