"""Requests that wait behind others can be taken back, and it is known for certain whether that came in time.

ipyparallel's engine drops a request that was aborted while it waited (`Client.abort`), and its reply to the abort
says nothing of one that was being run already. With what is put in place here the reply names those.
"""

from __future__ import annotations

from collections import deque
from typing import Any

REMEMBERED = 10_000
"""Requests that are known to have been taken, the newest ones. More do not wait behind one that runs."""

ABORT = "abort_request"


class Withdrawal:
    """What one engine has taken from its queue; put in place on the kernel by `install`."""

    def __init__(self) -> None:
        self._taken: deque[str] = deque(maxlen=REMEMBERED)

    def install(self, kernel: Any) -> None:
        """Takes effect with the kernel's next request; call once.

        `should_handle` and `control_handlers` are what ipykernel offers to subclasses. Requests are taken on the
        main thread, and taken back on the thread of the control channel: the one notes first and looks then, the
        other marks first and looks then, so that at least one of them sees the other.
        """
        should_handle, abort = kernel.should_handle, kernel.control_handlers[ABORT]

        def note_and_handle(stream: Any, message: dict[str, Any], idents: Any) -> Any:
            self._taken.append(message["header"]["msg_id"])
            return should_handle(stream, message, idents)

        def abort_and_report(stream: Any, ident: Any, parent: dict[str, Any]) -> Any:
            wanted = parent["content"].get("msg_ids")
            if not isinstance(wanted, list) or not wanted:
                return abort(stream, ident, parent)
            kernel.aborted.update(map(str, wanted))
            taken = [request for request in wanted if request in self._taken]
            content = {"status": "ok", "taken": taken}
            kernel.session.send(stream, "abort_reply", content, parent=parent, ident=ident)
            return None

        kernel.should_handle = note_and_handle
        kernel.control_handlers[ABORT] = abort_and_report
