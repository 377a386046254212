"""Plans of `%dist_plan`, of an expression that is evaluated in the notebook or looked up on the processes."""

from __future__ import annotations

import argparse
import ast
import builtins
from collections.abc import Mapping
from typing import Any

from nbdist.errors import ArrayError
from nbdist.rehearsal import ArrayPlan, make_plan, read_topology
from nbdist.session.session import Session


def plan_expression(
    expression: str,
    asked: argparse.Namespace,
    namespace: Mapping[str, Any],
    session: Session | None,
) -> ArrayPlan:
    """Return the plan of an expression.

    Args:
      expression: A Python expression, evaluated in the notebook. If the notebook lacks one of its names and a
        session runs, the arrays of that name on the processes are planned.
      asked: The options of `%dist_plan`; `specs` is evaluated in the notebook, and None means what arrays carry.
      namespace: The names of the notebook.
      session: A session that runs; None if none does.

    Raises:
      OptionError: Something that cannot be.
      ArrayError: There are no such arrays, or a name is not known.
    """
    # Before the expression is evaluated, which may take long.
    pod = None if asked.topology is None else read_topology(asked.topology, slices=asked.slices)
    specs = None if asked.specs is None else _evaluated(asked.specs, namespace, "--specs ")
    if session is not None and _missing(expression, namespace) is not None:
        found = session.shards(expression)
        value, source, shards = None, "the processes", (found.arrays, found.meshes)
    else:
        value, source, shards = _evaluated(expression, namespace, ""), "this notebook", None
    return make_plan(
        value,
        specs,
        topology=pod,
        devices=asked.devices,
        mesh=asked.mesh,
        slices=asked.slices,
        memory=asked.memory,
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
    """Return the first name of an expression that the notebook does not have; None if it has all.

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
