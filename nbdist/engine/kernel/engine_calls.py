"""Work of calls: expressions that all processes evaluate at the same time, calls taken apart, layouts.

The handlers of `calls.py` and `moving_calls.py` use it.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.inspection import ModelFound
from nbdist.errors import ArrayError, SessionError, showable

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident
    from nbdist.engine.probe.observer import NamespaceLook

    Buffer = bytes | memoryview


def evaluate(resident: Resident, expression: str, *, number: int | None = None) -> Any:
    """Return the value of a user's expression.

    Args:
      resident: The state of this engine.
      expression: A Python expression in the user's namespace.
      number: The number of the proof that follows when all processes evaluate the expression at the same time;
        None for a plain name, which computes nothing.

    Raises:
      ArrayError: The text is no expression, the expression raised, or it was not computed alike on all processes;
        the message says which.
      SessionError: A cell that was sent before has failed, and is not settled yet.
    """
    try:
        code = compile(expression, "<expression>", "eval")
    except SyntaxError as error:
        raise ArrayError(f"{expression!r} is no expression: {error.msg}.") from error
    with together(resident, number, repr(expression)):
        try:
            return eval(code, resident.shell.user_global_ns, resident.shell.user_ns)
        except Exception as error:
            raise ArrayError(
                f"{expression!r} raised {type(error).__name__} on {resident.where}: {showable(error)}"
            ) from error


def widget_event(
    resident: Resident,
    model: str | None,
    message: Mapping[str, Any],
    *,
    number: int | None = None,
) -> None:
    """Have a widget do what a person has asked of it; its output is output of the newest cell.

    Args:
      resident: The state of this engine.
      model: The widget's id on this process; None if only other processes are asked.
      message: `data` and `buffers`, as the front end has sent them.
      number: As for `evaluate`.

    Raises:
      SessionError: There is no such widget any more.
    """
    kernel = resident.kernel
    with together(resident, number, "What the widget does"):
        if model is None:
            return
        comm = kernel.comm_manager.comms.get(model)
        if comm is None:
            raise SessionError(f"The widget is no longer there on {resident.where}.")
        parent = kernel.get_parent("shell")
        kernel.set_parent([], resident.publisher.request or {}, channel="shell")
        try:
            content = {"comm_id": model, "data": message["data"]}
            comm.handle_msg({"content": content, "buffers": message["buffers"]})
        finally:
            kernel.set_parent([], parent, channel="shell")


@contextlib.contextmanager
def together(resident: Resident, number: int | None, what: str) -> Iterator[None]:
    """Return a context for code that all processes run together; a proof of this number follows, unless None.

    Raises:
      SessionError: A cell that was sent before has failed, and is not settled yet.
      ArrayError: The block ended well here, and was not computed alike on all processes.
    """
    if number is None:
        yield
        return
    resident.admit(number)
    failed = True
    try:
        yield
        failed = False
    finally:
        if resident.step is not None:
            resident.step.end_cell(number, failed=failed, compared=False)
    if resident.step is not None and resident.step.unsettled:
        raise ArrayError(f"{what} was not computed alike on all processes.")


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


def imported_from(paths: Sequence[str]) -> list[str]:
    """Return the names of the modules of this process that come from one of these files."""
    importlib.invalidate_caches()
    wanted = {os.path.realpath(path) for path in paths}
    found = []
    for name, module in list(sys.modules.items()):
        # An entry of `sys.modules` may be any object, even one that raises for every attribute.
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
