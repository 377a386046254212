"""What threads show is taken for output of the newest cell, whatever nbdist has asked for since."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

from nbdist.engine.kernel.shell import threads_speak_for_cells


class Shell:
    """As ipykernel's: a parent for each context, and the newest for threads without one."""

    def __init__(self) -> None:
        self._own: contextvars.ContextVar[str] = contextvars.ContextVar("own")
        self._newest = "none"

    def set_parent(self, parent: dict[str, Any]) -> None:
        self._newest = parent["header"]["msg_id"]
        self._own.set(self._newest)

    @property
    def parent(self) -> str:
        return self._own.get(self._newest)

    def of_a_thread(self) -> str:
        found: list[str] = []
        context = contextvars.Context()
        thread = threading.Thread(target=lambda: found.append(context.run(lambda: self.parent)))
        thread.start()
        thread.join()
        return found[0]


def request(number: str, kind: str) -> dict[str, Any]:
    return {"header": {"msg_id": number, "msg_type": f"{kind}_request"}}


def test_calls_between_cells_do_not_take_over_what_threads_show() -> None:
    shell = Shell()
    threads_speak_for_cells(shell)
    shell.set_parent(request("call 0", "apply"))
    assert (shell.parent, shell.of_a_thread()) == ("call 0", "call 0")
    shell.set_parent(request("cell 1", "execute"))
    assert (shell.parent, shell.of_a_thread()) == ("cell 1", "cell 1")
    shell.set_parent(request("call 2", "apply"))
    assert (shell.parent, shell.of_a_thread()) == ("call 2", "cell 1")
    shell.set_parent(request("cell 3", "execute"))
    assert (shell.parent, shell.of_a_thread()) == ("cell 3", "cell 3")
