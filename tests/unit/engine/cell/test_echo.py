"""What an engine keeps of its own output: one message that cannot be kept is not the last."""

from __future__ import annotations

import json
from typing import Any

from nbdist.engine.cell.output import DELIMITER, KeptOutput


def frames(text: str, number: int = 1) -> list[bytes]:
    header = {"msg_id": f"m{number}", "msg_type": "stream"}
    parts = (header, {"msg_id": "r"}, {}, {"name": "stdout", "text": text})
    return [b"engine.0.stdout", DELIMITER, b"s", *(json.dumps(part).encode() for part in parts)]


class Publisher:
    """Stands for ipykernel's IOPubThread."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_multipart(self, frames: Any) -> None:
        self.sent.append(frames)


def test_output_that_cannot_be_kept_is_shown_and_what_comes_next_is_kept() -> None:
    publisher = Publisher()
    echo = KeptOutput(publisher)
    echo.install()
    for bad in (
        [b"engine.0.stdout", DELIMITER],
        [b"engine.0.x", DELIMITER, b"s", b"{", b"", b"", b""],
        ["text"],
    ):
        publisher.send_multipart(bad)
    publisher.send_multipart(frames("good"))
    assert len(publisher.sent) == 4
    assert [m.content["text"] for m in echo.of().messages] == ["good"]


def test_what_a_program_wrote_before_python_printed_is_sent_before_it() -> None:
    publisher = Publisher()
    echo = KeptOutput(publisher, lambda: publisher.sent.append("of a program"))
    echo.install()
    publisher.send_multipart(frames("printed"))
    publisher.send_multipart([b"engine.0.stderr", *frames("of a program")[1:]])
    assert publisher.sent[0] == "of a program"
    assert len(publisher.sent) == 3  # once, and not before stderr, in which it is sent
