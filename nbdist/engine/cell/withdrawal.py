"""Withdrawal of requests that wait behind others: the reply says for certain whether it came in time.

ipyparallel's engine drops a request that was aborted while it waited (`Client.abort`). Its reply to the abort does
not name requests that were running already; with this module it does.
"""

from __future__ import annotations

from collections import deque
from typing import Any

REMEMBERED = 10_000
"""Most requests that are known to have been taken, the newest ones. More do not wait behind one that runs."""

ABORT = "abort_request"


class Withdrawal:
    """Requests that one engine has taken from its queue; `install` has the kernel note them."""

    def __init__(self) -> None:
        self._taken: deque[str] = deque(maxlen=REMEMBERED)

    def install(self, kernel: Any) -> None:
        """Put the two hooks in place, with effect from the kernel's next request; call once.

        `should_handle` and `control_handlers` are what ipykernel offers to subclasses. The main thread takes
        requests: it notes one, then looks whether it is withdrawn. The thread of the control channel withdraws
        requests: it marks one, then looks whether it is noted. So at least one thread sees the other.
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
