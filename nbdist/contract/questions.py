"""Questions to a process that bypass its main thread, which may run a cell, and their answers.

A process is asked by one letter (`Aside`) in a pipe of its own. Some letters have it read a `Question` from the
file `QUESTION`; the answer comes as `AsideAnswer` of `nbdist.contract.iopub`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nbdist.contract.wire import Plain, Tagged, decode


class Aside(StrEnum):
    """A request as a single letter: a pipe never splits a single byte, however many arrive at once."""

    REPEAT = "r"
    """Send again what a kernel that has just come must know."""

    CUT = "c"
    """End all collectives; a repair follows."""

    FREE = "f"
    """Do as for `CUT` if the main thread is blocked where no signal reaches it. Ask repeatedly, since code
    that has just been interrupted is left alone for a moment."""

    RESCUE = "s"
    """Save what is in memory to a file: this process is about to be given up."""

    COUNT = "n"
    """Report what was sent to the devices of several processes."""

    COMPARE = "d"
    """Answer a `CompareBefore`."""

    STACK = "t"
    """Answer a `ReadStacks`."""

    STOP = "p"
    """Answer a `StopAtStep`."""

    LINE = "l"
    """Answer a `GiveLine`."""

    ABANDON = "a"
    """End the wait for a proof."""


QUESTION = "question"
"""The file of the session's folder on a host that holds a `Question` as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedLine(Tagged):
    """A person typed this line."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfInput(Tagged):
    """The person ended the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyAnswers(Tagged):
    """Nobody can be asked; `why` says why not."""

    why: str


LineReply = TypedLine | EndOfInput | NobodyAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareBefore(Tagged):
    """Question for digests of what must be equal before this cell; answered when the main thread is free."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAtStep(Tagged):
    """Request to leave the cell of this run before the same step as all others."""

    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveLine(Tagged):
    """Reply to the debugger's question of number `to`."""

    to: int
    reply: LineReply


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStacks(Tagged):
    """Question for the stacks of all threads; with `native`, as py-spy sees them."""

    native: bool


What = CompareBefore | StopAtStep | GiveLine | ReadStacks
"""A question, by its kind."""

LETTERS: Mapping[type[What], Aside] = {
    CompareBefore: Aside.COMPARE,
    StopAtStep: Aside.STOP,
    GiveLine: Aside.LINE,
    ReadStacks: Aside.STACK,
}
"""The letter by which a process learns of each question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the number that its answer carries."""

    number: int
    what: What


@dataclass(frozen=True, slots=True, kw_only=True)
class Digests(Tagged):
    """Digests by topic, each a short text that is equal if the processes agree."""

    digests: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsBegun(Tagged):
    """The number of steps that have begun; None if the cell does not run."""

    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTaken(Tagged):
    """The answer to a `GiveLine`: whether its line answers the question that the debugger asks or has asked."""

    taken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread: its name, and its lines, outermost first."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads(Tagged):
    """All threads but the one that reads them; the main thread first."""

    threads: tuple[ThreadStack, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStacks(Tagged):
    """All threads with native frames; `error` says why there is no `text`."""

    text: str | None = None
    error: str | None = None


Answer = Digests | StepsBegun | LineTaken | Threads | NativeStacks


def question_from(data: Plain) -> Question:
    """Read a question from the data in the file `QUESTION`.

    Raises:
      WireError: The data has another shape.
    """
    return decode(Question, data)
