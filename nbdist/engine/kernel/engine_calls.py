"""Work of the calls that ask about an engine, its modules, a model's layout, or the parts of a call.

The handlers are in `nbdist.engine.kernel.calls`. An engine that somebody else has started is described, and gets
its environment variables, before it takes part in a session (`describe`, `prepare`).
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.arrays import ModelFound
from nbdist.contract.calls.call import PROTOCOL
from nbdist.contract.calls.engine import Described
from nbdist.engine.frameworks.framework import Framework
from nbdist.engine.kernel.together import evaluate
from nbdist.engine.probe.look import NamespaceLook
from nbdist.errors import ArrayError
from nbdist.machine.ports import own_address
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

NUMBERS = ("NBDIST_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""The variables in which a launcher gives a process its number, in order of precedence."""


def describe(resident: Resident, framework: Framework, controller: str) -> Described:
    """Return who this engine is, and how far its framework is; change nothing and start no back end.

    Args:
      resident: The state of this engine.
      framework: The framework that the session is to use.
      controller: The address at which this host reaches ipyparallel's controller.
    """
    # Free the port of an earlier kernel that asked and went no further.
    resident.reserved.close()
    (port,) = resident.reserved.reserve(1)
    cluster = framework.cluster()
    return Described(
        protocol=PROTOCOL,
        nbdist=__version__,
        python=".".join(map(str, sys.version_info[:3])),
        host=resident.host,
        pid=resident.pid,
        ident=resident.kernel.ident,
        settled=resident.process_id if resident.process_id >= 0 else None,
        numbers={n: int(os.environ[n]) for n in NUMBERS if os.environ.get(n, "").isdigit()},
        joined=cluster.joined(),
        up=cluster.is_up(),
        devices=cluster.devices(),
        version=framework.version(),
        address=own_address(controller),
        port=port,
    )


def prepare(environment: Mapping[str, str], framework: Framework) -> list[str]:
    """Set environment variables that nobody has set yet.

    A framework reads its own variables when it is imported. If it is imported already, its configuration is
    changed instead; variables without such a configuration come too late.

    Returns:
      The names of the variables that come too late.
    """
    new = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(new)
    return framework.configure(new)


def called(
    resident: Resident, expression: str, *, number: int | None
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return function and arguments of a call such as `step(params, batch)`, evaluated; do not run the call.

    Args:
      resident: The state of this engine.
      expression: The call, as a person wrote it; its function and arguments may be any expressions.
      number: The number for `evaluate`.

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


def imported(paths: Sequence[str]) -> list[str]:
    """Return the names of the modules of this process that come from one of these files."""
    importlib.invalidate_caches()
    wanted = {os.path.realpath(path) for path in paths}
    found = []
    for name, module in list(sys.modules.items()):
        # Modules may be anything, also objects that raise for every attribute.
        file = getattr(module, "__dict__", {}).get("__file__")
        if name != "__main__" and isinstance(file, str) and os.path.realpath(file) in wanted:
            found.append(name)
    return sorted(found)


def layout_of(value: Any, expression: str, look: NamespaceLook) -> ModelFound:
    """Return the layout of a model: every variable with its rule, axes, spec and bytes.

    With it come the meshes and distributions that it refers to.

    Args:
      value: A Keras model or layer that has variables.
      expression: The expression by which the user named it.
      look: A look for this call alone, made and used on the main thread.

    Raises:
      ArrayError: The value is something else, or has no variables yet.
    """
    if not look.has_layout(value):
        raise ArrayError(
            f"{expression!r} (of type {type(value).__name__}) is no Keras model or layer, and holds no arrays of "
            "which a layout could be shown."
        )
    seen = look.at_model(expression, value)
    if not seen.models:
        raise ArrayError(
            f"{expression!r} has no variables yet. Build it first: give it an Input, call it on a batch, "
            "or run build(input_shape)."
        )
    return ModelFound(model=seen.models[0], meshes=seen.meshes, distributions=seen.distributions)
