"""Work that all processes do at the same time outside cells: an expression, or what a person does to a widget."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nbdist.engine.cell.code_owners import showable
from nbdist.errors import ArrayError, SessionError

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident


def evaluate(resident: Resident, expression: str, *, number: int | None = None) -> Any:
    """Return the value of a user's expression.

    Args:
      resident: The state of this engine.
      expression: A Python expression in the user's namespace.
      number: The number of the proof that follows if all processes evaluate it at the same time; None for a name,
        which computes nothing.

    Raises:
      ArrayError: The expression is none, raised, or was not computed alike on all processes; the text says which.
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
    """Run a block that all processes run at the same time, and a proof of this number after it; None: no proof.

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
