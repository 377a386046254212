"""How a call and its answer travel: the name of the call and JSON there, JSON back, raw buffers beside either.

A value of another shape than its dataclass is one error on either side, a `WireError`; it fails this call and
nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, get_args

from nbdist.contract.wire import Plain, decode, encode
from nbdist.errors import WireError

PROTOCOL = 15
"""Rises when a call or an answer changes; compared in the first message, which must stay readable."""

A = TypeVar("A", covariant=True)
C = TypeVar("C", bound="Call[Any]")


class Call(Generic[A]):
    """One call: a dataclass of its arguments, derived from `Call[…]` with the dataclass of its answer.

    Attributes:
      NAME: By which the engine knows it.
    """

    __slots__ = ()
    NAME: ClassVar[str]

    @classmethod
    def answer_from(cls, data: Plain) -> A:
        """Reads an answer.

        Raises:
          WireError: It has another shape.
        """
        answer: A = decode(answer_of(cls), data)
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer of a call that has nothing to say but that it went through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """What a call has raised: the name of a class, one of `nbdist.errors` where it is ours, and its text."""

    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What comes back: the answer as plain data, or what was raised.

    `computed` says that the process has used devices of others for it.
    """

    ok: Any = None
    error: Failed | None = None
    computed: bool = False


def answer_of(call: type[Call[Any]]) -> Any:
    """The dataclass of the answer to a call."""
    (base,) = call.__dict__["__orig_bases__"]
    return get_args(base)[0]


def to_text(call: Call[Any]) -> str:
    """The arguments of a call as they are sent.

    Raises:
      WireError: They have something JSON has no form for.
    """
    return json.dumps(encode(call))


def from_text(call: type[C], text: str) -> C:
    """A call from its arguments as they have come.

    Raises:
      WireError: They have another shape.
    """
    return decode(call, _read(text))


def reply_to_text(reply: Reply) -> str:
    """A reply as it is sent: what it does not say is left out, since earlier kernels look whether it is there.

    Raises:
      WireError: It has something JSON has no form for.
    """
    return json.dumps(
        {name: value for name, value in encode(reply).items() if value or name == "ok"}
    )


def reply_from_text(text: str) -> Reply:
    """A reply as it has come.

    Raises:
      WireError: It has another shape.
    """
    return decode(Reply, _read(text))


def _read(text: str) -> Plain:
    try:
        return json.loads(text)
    except ValueError as error:
        raise WireError(f"What should be JSON cannot be read: {error}.") from error
