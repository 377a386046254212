"""A request that waits is taken back, and one that was taken is named, whichever comes first."""

from __future__ import annotations

from typing import Any

from nbdist.engine.kernel.shell import report_withdrawals


class Kernel:
    """ipyparallel's, as far as it takes requests and takes them back."""

    def __init__(self) -> None:
        self.aborted: set[str] = set()
        self.control_handlers: dict[str, Any] = {"abort_request": self.abort_request}
        self.sent: list[dict[str, Any]] = []
        self.all_aborted = False
        self.session = self
        report_withdrawals(self)

    def should_handle(self, stream: Any, message: dict[str, Any], idents: Any) -> bool:
        return message["header"]["msg_id"] not in self.aborted

    def abort_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        self.all_aborted = True

    def send(self, stream: Any, kind: str, content: dict[str, Any], **_: Any) -> None:
        assert kind == "abort_reply"
        self.sent.append(content)

    def take(self, request: str) -> bool:
        return self.should_handle(None, {"header": {"msg_id": request}}, [])

    def abort(self, *requests: str) -> list[str]:
        content = {"msg_ids": list(requests)} if requests else {}
        self.control_handlers["abort_request"](None, b"", {"content": content})
        return self.sent[-1]["taken"] if self.sent else []


def test_one_that_waits_is_dropped_when_its_turn_comes() -> None:
    kernel = Kernel()
    assert kernel.abort("b") == []
    assert kernel.take("a") is True
    assert kernel.take("b") is False


def test_one_that_was_taken_is_named_and_goes_on() -> None:
    kernel = Kernel()
    assert kernel.take("a") is True
    assert kernel.abort("a", "b") == ["a"]


def test_an_abort_of_everything_is_ipyparallels_own() -> None:
    kernel = Kernel()
    kernel.abort()
    assert kernel.all_aborted and not kernel.sent
