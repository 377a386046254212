"""What goes with a question past the main thread, in the file `QUESTION`, and what is answered to it.

The letter that has the file read is of `nbdist.contract.asides`; the answer comes as `AsideAnswer` of
`nbdist.contract.iopub`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nbdist.contract.asides import Aside
from nbdist.contract.wire import Plain, decode

QUESTION = "question"
"""A file of the session's folder on a host: a `Question`, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedLine:
    """A person has typed this."""

    text: str
    kind: Literal["line"] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfInput:
    """A person wants no more."""

    kind: Literal["end"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyAnswers:
    """Nobody can be asked; `why`."""

    why: str
    kind: Literal["nobody"] = "nobody"


LineReply = TypedLine | EndOfInput | NobodyAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareBefore:
    """Say digests of what must be equal before this cell, when the main thread is free."""

    code: str
    kind: Literal["compare"] = "compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAtStep:
    """Leave the cell of this run before the same step as all others."""

    run: int
    kind: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveLine:
    """Take the reply to the question of a debugger, by its number."""

    to: int
    reply: LineReply
    kind: Literal["give"] = "give"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStacks:
    """Say what all threads are in the middle of; `native` as py-spy sees it."""

    native: bool
    kind: Literal["stacks"] = "stacks"


What = CompareBefore | StopAtStep | GiveLine | ReadStacks

LETTERS: Mapping[type[What], Aside] = {
    CompareBefore: Aside.COMPARE,
    StopAtStep: Aside.STOP,
    GiveLine: Aside.LINE,
    ReadStacks: Aside.STACK,
}
"""By which letter a process learns of each; it answers a kernel, under the number of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and the number under which it is answered."""

    number: int
    what: What


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests:
    """A short text by topic that is equal where the processes agree."""

    digests: Mapping[str, str]
    kind: Literal["digests"] = "digests"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsBegun:
    """How many steps have begun; None where the cell does not run."""

    steps: int | None
    kind: Literal["steps"] = "steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTaken:
    """Whether the question that a line answers is, or was, the one asked."""

    taken: bool
    kind: Literal["taken"] = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread: its name, and its lines, outermost first."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """All threads but the one that reads them; the main thread first."""

    threads: tuple[ThreadStack, ...]
    kind: Literal["threads"] = "threads"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStacks:
    """All threads with native frames; `error` says why there is no `text`."""

    text: str | None = None
    error: str | None = None
    kind: Literal["native"] = "native"


Answer = Digests | StepsBegun | LineTaken | Threads | NativeStacks


def question_from(data: Plain) -> Question:
    """What is in the file `QUESTION`.

    Raises:
      WireError: It has another shape.
    """
    return decode(Question, data)
