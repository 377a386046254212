"""Calls from a kernel to an engine, and their answers: one type for each call, one for each answer.

A call travels as its name and JSON one way, its answer as JSON back, with raw buffers beside either. Data whose
shape does not fit its type raises a `WireError` on either side; only this call fails.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, TypeVar

from nbdist.contract.wire import (
    Data,
    Plain,
    Request,
    answer_type,
    decode,
    encode,
    from_json,
    in_small_letters,
    to_json,
)

PROTOCOL = 16
"""Rises when a call or an answer changes; compared in the first message, which must stay readable."""

A = TypeVar("A", covariant=True)
C = TypeVar("C", bound="Call[Any]")


class Call(Request[A]):
    """One call: its arguments, derived from `Call[...]` with the type of its answer.

    Attributes:
      NAME: The name by which the engine knows the call: the words of the class's name in small letters, without
        `ask`, where the class does not say otherwise.
      INTERRUPTIBLE: Whether an interrupt may end it, as it runs user code or waits for other processes. An
        interrupt would leave any other call half done.
      GLANCES: Whether it goes to one process alone, and an attribute of a user's object may compute in it; the
        reply then says whether it has.
    """

    NAME: ClassVar[str]
    INTERRUPTIBLE: ClassVar[bool] = False
    GLANCES: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "NAME" not in vars(cls):
            cls.NAME = in_small_letters(cls.__name__).removeprefix("ask_")

    @classmethod
    def answer_from(cls, data: Plain) -> A:
        """Read an answer.

        Raises:
          WireError: The data has another shape.
        """
        answer: A = decode(answer_type(cls), data)
        return answer


class Done(Data):
    """Answer of a call that only says that it succeeded."""


class Failed(Data):
    """An exception that a call raised: its class name (a class of `nbdist.errors` if it is ours) and its text."""

    type: str
    text: str


class Reply(Data):
    """Reply to a call: the answer as plain data, or the exception.

    `computed` says that the process used devices of other processes for the call.
    """

    ok: Any = None
    error: Failed | None = None
    computed: bool = False


def to_text(call: Call[Any]) -> str:
    """Return the arguments of a call as JSON text.

    Raises:
      WireError: The arguments hold something JSON has no form for.
    """
    return to_json(call)


def from_text(call: type[C], text: str) -> C:
    """Read a call from the JSON text of its arguments.

    Raises:
      WireError: The arguments have another shape.
    """
    return from_json(call, text)


def reply_to_text(reply: Reply) -> str:
    """Return a reply as JSON text, without empty fields: earlier kernels check whether a field is there.

    Raises:
      WireError: The reply holds something JSON has no form for.
    """
    return json.dumps(
        {name: value for name, value in encode(reply).items() if value or name == "ok"}
    )


def reply_from_text(text: str) -> Reply:
    """Read a reply from its JSON text.

    Raises:
      WireError: The reply has another shape.
    """
    return from_json(Reply, text)
