"""The view's use of the Jupyter kernel it runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipykernel.kernelbase import Kernel


def running_kernel() -> Any | None:
    """Return the Jupyter kernel of this process; None in a terminal or a script."""
    if not Kernel.initialized():
        return None
    return Kernel.instance()


def broadcast(kernel: Any, comm_id: str, data: dict[str, Any]) -> None:
    """Send `data` as a message of a comm to every front end, from any thread.

    Sends without a parent: a comm's own `send` would name the running cell as the parent, and ipykernel would then
    keep this comm's commands waiting until that cell has ended.
    """
    kernel.session.send(
        kernel.iopub_socket,
        "comm_msg",
        {"comm_id": comm_id, "data": data},
        parent=None,
        ident=f"comm-{comm_id}".encode(),
    )


def forget_reply_shell(comm: Any) -> None:
    """Let the front end's messages on `comm` arrive while a cell runs.

    ipykernel 7.4 sends them to the shell that last sent on the comm, which is the busy one when a
    cell made the comm; with nothing remembered it uses the subshell the front end asked for. The
    attribute is private to ipykernel: where there is none, messages wait for the cell, and frames
    are sent all the same.
    """
    vars(comm).pop("_reply_subshell_id", None)


def between_cells(kernel: Any, call: Callable[[], None]) -> None:
    """Call a function on the thread that runs cells, after the running one; from any thread.

    Messages of a comm come on a thread of their own (a subshell), and a session is used from the other.
    """
    kernel.io_loop.add_callback(call)
