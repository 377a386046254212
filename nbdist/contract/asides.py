"""`Aside`: what a process is asked past its main thread, which may run a cell, and what it answers.

A process is asked by one letter in a pipe of its own. It reads the arguments of an aside that has an answer from
the file `QUESTION`; the answer comes as `AsideAnswer` of `nbdist.contract.iopub`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, get_args

from nbdist.contract.wire import Data, Plain, Request, Tagged, decode

A = TypeVar("A", covariant=True)

QUESTION = "question"
"""The file of the session's folder on a host that holds a `Question` as JSON."""


class TypedLine(Tagged):
    """A person typed this line."""

    text: str


class EndOfInput(Tagged):
    """The person ended the input."""


class NobodyAnswers(Tagged):
    """Nobody can be asked; `why` says why not."""

    why: str


LineReply = TypedLine | EndOfInput | NobodyAnswers


class Digests(Tagged):
    """Digests by topic, each a short text that is equal if the processes agree."""

    digests: Mapping[str, str]


class StepsBegun(Tagged):
    """The number of steps that have begun; None if the cell does not run."""

    steps: int | None


class LineTaken(Tagged):
    """The answer to a `GiveLine`: whether its line answers the question that the debugger asks or has asked."""

    taken: bool


class ThreadStack(Data):
    """One thread: its name, and its lines, outermost first."""

    name: str
    lines: tuple[str, ...]


class Threads(Tagged):
    """All threads but the one that reads them; the main thread first."""

    threads: tuple[ThreadStack, ...]


class NativeStacks(Tagged):
    """All threads with native frames; `error` says why there is no `text`."""

    text: str | None = None
    error: str | None = None


Answer = Digests | StepsBegun | LineTaken | Threads | NativeStacks


class Aside(Tagged, Request[A]):
    """A request past the main thread.

    Attributes:
      LETTER: How a process learns of it: a pipe never splits a single byte, however many arrive at once.
    """

    LETTER: ClassVar[str]


class Repeat(Aside[None]):
    """Send again what a kernel that has just come must know."""

    LETTER = "r"


class Cut(Aside[None]):
    """End all collectives; a repair follows."""

    LETTER = "c"


class Free(Aside[None]):
    """End all collectives if the main thread is blocked where no signal reaches it.

    Ask repeatedly, since code that has just been interrupted is left alone for a moment.
    """

    LETTER = "f"


class Rescue(Aside[None]):
    """Save what is in memory to a file: this process is about to be given up."""

    LETTER = "s"


class Count(Aside[None]):
    """Report what was sent to the devices of several processes."""

    LETTER = "n"


class Abandon(Aside[None]):
    """End the wait for a proof."""

    LETTER = "a"


class CompareBefore(Aside[Digests]):
    """Return digests of what must be equal before this cell; answered when the main thread is free."""

    LETTER = "d"
    code: str


class StopAtStep(Aside[StepsBegun]):
    """Leave the cell of this run before the same step as all others."""

    LETTER = "p"
    run: int


class GiveLine(Aside[LineTaken]):
    """Take the reply to the debugger's question of number `to`."""

    LETTER = "l"
    to: int
    reply: LineReply


class ReadStacks(Aside[Threads]):
    """Return the stacks of all threads."""

    LETTER = "t"


class ReadNativeStacks(Aside[NativeStacks]):
    """Return the stacks of all threads as py-spy sees them, with C and C++ frames."""

    LETTER = "v"


AnyAside = (
    Repeat
    | Cut
    | Free
    | Rescue
    | Count
    | Abandon
    | CompareBefore
    | StopAtStep
    | GiveLine
    | ReadStacks
    | ReadNativeStacks
)

BY_LETTER: Mapping[str, type[Aside[Any]]] = {one.LETTER: one for one in get_args(AnyAside)}


class Question(Data):
    """An aside as it travels, and the number that its answer carries."""

    number: int
    aside: AnyAside


def question_from(data: Plain) -> Question:
    """Read a question from the data in the file `QUESTION`.

    Raises:
      WireError: The data has another shape.
    """
    return decode(Question, data)
