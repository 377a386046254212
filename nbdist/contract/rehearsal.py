"""Reports of a rehearsal's process about its programs: a line of JSON each, in a file that its starter names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from nbdist.contract.program import Program
from nbdist.contract.wire import decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """A function is being compiled.

    Attributes:
      name: The name of the function.
    """

    name: str
    event: Literal["compiling"] = "compiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A program that a function needs is compiled.

    Attributes:
      program: The compiler's result, made now or before.
    """

    program: Program
    event: Literal["compiled"] = "compiled"


Reported = Compiling | Compiled


def to_line(reported: Reported) -> str:
    """Return a report as a line of the file, with its end."""
    return json.dumps(encode(reported)) + "\n"


def from_line(line: str) -> Reported:
    """Read a line of the file.

    Raises:
      WireError: The line is no report.
    """
    found: Reported = decode(Reported, json.loads(line))  # type: ignore[arg-type]
    return found
