"""Messages of nbdist that an engine publishes beside its output, by type (`msg_type` of the Jupyter protocol).

`CellStep`, `Sent`, `Prompting` and `Rescued` answer the request of a cell; the others go to every kernel that
takes part. A message of another shape raises a `WireError`, and no other message is lost by it.

Source: imports nothing outside the standard library but msgspec, since engines import it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist.contract.asides import Answer
from nbdist.contract.calls.stepping import Proven, Sent
from nbdist.contract.snapshot import Report
from nbdist.contract.wire import Data, Plain, decode, encode


class KeptMessage(Data):
    """One message of output as it was sent: its id, the request it answers, its type and its content."""

    id: str
    parent: str
    kind: str
    content: Mapping[str, Any]


class Kept(Data):
    """Output that a process still keeps, in order, and how many messages of each request were dropped."""

    messages: tuple[KeptMessage, ...]
    lost: Mapping[str, int]


class CellStep(Data):
    """The facts that a process has at the end of a cell about being in step with the others.

    Attributes:
      number: The number of this sending of the cell, and of the proof at its end.
      compared: Whether the kernel compares what was sent, instead of a proof.
      proving: Whether the process still waits: for the proof, or until what it has sent is computed.
      proven: How the proof ended; None if there was none, or it goes on.
      sent: What was sent.
    """

    number: int
    compared: bool = False
    proving: bool = False
    proven: Proven | None = None
    sent: Sent

    @property
    def in_step(self) -> bool:
        """Return whether nothing in this message says that the processes are out of step."""
        return self.proven is None or bool(self.proven.passed and self.proven.alike)


class Prompt(Data):
    """A line of input that a process waits for.

    Attributes:
      number: The number of the question.
      text: The text before the line, such as `"ipdb> "`.
      what: Why it is asked, such as `"at a breakpoint"`.
      line: The 1-based line of the notebook's cell; None if it is not known.
      source: The text of that line.
    """

    number: int
    text: str
    what: str
    line: int | None
    source: str | None

    @property
    def place(self) -> str:
        """The reason and the line of the question, such as `at a breakpoint in line 4, y = step(x)`."""
        source = f", {self.source}" if self.source else ""
        return self.what if self.line is None else f"{self.what} in line {self.line}{source}"


class Prompting(Data):
    """The question of a debugger; None once it asks nothing any more."""

    prompt: Prompt | None


class Rescued(Data):
    """Memory that a process saved to a file before it was given up.

    Attributes:
      path: The path of the file.
      arrays: How many pieces of arrays are in it.
      nbytes: The bytes of these pieces.
      left_out: The paths of arrays that are not in it.
    """

    path: str
    arrays: int
    nbytes: int
    left_out: tuple[str, ...]


class Echo(Data):
    """Recent output that a process still keeps, for a kernel that has attached since."""

    process_id: int
    kept: Kept


class AsideAnswer(Data):
    """The answer to a question that bypassed the main thread; see `nbdist.contract.asides`.

    Attributes:
      process_id: The process that answers.
      number: The number of the question.
      answer: The answer.
    """

    process_id: int
    number: int
    answer: Answer


TYPES: Mapping[type[Any], str] = {
    CellStep: "nbdist_step",
    Sent: "nbdist_sent",
    Prompting: "nbdist_prompt",
    Rescued: "nbdist_rescue",
    Echo: "nbdist_echo",
    AsideAnswer: "nbdist_answer",
    Report: "nbdist_report",
}
"""The type of each message."""

_BY_TYPE = {msg_type: cls for cls, msg_type in TYPES.items()}


def content_of(message: object) -> tuple[str, Plain]:
    """Return the type and the content of a message, as it is published.

    Raises:
      WireError: The message holds something JSON has no form for.
    """
    return TYPES[type(message)], encode(message)


def message_of(msg_type: str, content: Plain) -> Any:
    """Return a message from its content; None if the message is not ours.

    Raises:
      WireError: The message is ours, and has another shape.
    """
    cls = _BY_TYPE.get(msg_type)
    return None if cls is None else decode(cls, content)


class Encoder:
    """Encoder like `nbdist.contract.wire.encode` for one sender, most of whose messages repeat the one before.

    In a field that is a tuple, an item that is the same object as in the last message with that field is not
    encoded again. The returned data share such parts, and must not be changed. Used from one thread.
    """

    def __init__(self) -> None:
        # By the id of the item, which no other object can have as long as the item is kept beside it.
        self._known: dict[str, dict[int, tuple[object, Plain]]] = {}

    def encode(self, message: Any) -> Plain:
        """Turn a message into plain data.

        Raises:
          WireError: The message holds something JSON has no form for.
        """
        return {name: self._field(name, message) for name in message.__struct_fields__}

    def _field(self, name: str, message: Any) -> Plain:
        value = getattr(message, name)
        if type(value) is not tuple:
            return encode(value)
        before, now = self._known.get(name, {}), {}
        for item in value:
            now[id(item)] = before.get(id(item)) or (item, encode(item))
        self._known[name] = now
        return [now[id(item)][1] for item in value]
