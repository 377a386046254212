"""The text of a compiled program: its computations, its instructions, who calls which.

`compiled.as_text()` may have 50 MB. It is searched for a few words, and only the lines that have one are read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from nbdist.errors import ProgramError

Role = Literal["calls", "body", "condition", "to_apply", "branch"]

_CALLS: dict[str, Role] = {
    ", calls=": "calls",
    ", body=": "body",
    ", condition=": "condition",
    ", to_apply=": "to_apply",
    ", branch_computations={": "branch",
    ", true_computation=": "branch",
    ", false_computation=": "branch",
    ", called_computations={": "calls",
}
_NAME = re.compile(r"%?([\w.\-]+)")
_PAREN = re.compile(r"[()]")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_HEAD = re.compile(r"\s*(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"\s*(?:ROOT )?%?[\w.\-]+ = ([^( ]\S*) ")
_OPERAND = re.compile(r"%([\w.\-]+)")
_MODULE = re.compile(r"HloModule ([\w.\-]+)")
_COUNT = re.compile(r"\b(replica_count|num_partitions)=(\d+)")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a computation: `%name = type opcode(operands), attributes`."""

    name: str
    root: bool
    type: str
    opcode: str
    inside: str
    attributes: str

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the instructions whose values it takes."""
        return tuple(_OPERAND.findall(self.inside))


@dataclass(frozen=True, slots=True)
class Call:
    """That an instruction runs a computation."""

    caller: str
    start: int
    role: Role


class Module:
    """The text of a program, in parts.

    Args:
      text: What `compiled.as_text()` gives.

    Raises:
      ProgramError: The text is none of a program, or not all of it.
    """

    def __init__(self, text: str) -> None:
        head = _MODULE.match(text)
        if head is None:
            raise ProgramError(
                f"This is no text of a compiled program: it begins with {text[:40]!r}, not with 'HloModule'. "
                "Give what compiled.as_text() returns."
            )
        self.text = text
        self.name = head[1]
        # The counts may stand anywhere in the first line, after types of any length.
        counts = dict(_COUNT.findall(text[: text.find("\n")]))
        self.replicas = int(counts.get("replica_count", 1))
        self.partitions = int(counts.get("num_partitions", 1))
        self._starts: list[int] = []
        self._names: list[str] = []
        self.spans: dict[str, tuple[int, int]] = {}
        self.entry = ""
        self._find_computations()
        self._definitions: dict[str, dict[str, int]] = {}

    def _find_computations(self) -> None:
        """Computations begin in the first column, and end with a brace there."""
        text = self.text
        found = sorted([*occurrences(text, "\n%"), *occurrences(text, "\nENTRY ")])
        for start, following in pairwise([*found, len(text)]):
            end = text.find("\n}", start, following)
            if end < 0:
                raise ProgramError(
                    f"The text of the program {self.name} ends in the middle of a computation: "
                    f"{text[start + 1 : start + 60].strip()!r}. Give all of what compiled.as_text() returns."
                )
            entry = text.startswith("ENTRY ", start + 1)
            name = _NAME.match(text, start + (7 if entry else 1))
            assert name is not None or not entry
            if name is None:
                continue
            if entry:
                self.entry = name[1]
            self._starts.append(start)
            self._names.append(name[1])
            self.spans[name[1]] = (start + 1, end)
        if not self.entry:
            raise ProgramError(
                f"The text of the program {self.name} has no computation that begins with 'ENTRY'. Give all of "
                "what compiled.as_text() returns."
            )

    def computation_at(self, position: int) -> str | None:
        """The computation whose text has this position; None outside of all."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position > self.spans[self._names[index]][1]:
            return None
        return self._names[index]

    def line_at(self, position: int) -> tuple[int, str]:
        """Where the line begins that has this position, and the line."""
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        return start, self.text[start : end if end >= 0 else None]

    def instruction_at(self, position: int) -> Instruction | None:
        """The instruction whose line has this position; None where it is none."""
        return instruction(self.line_at(position)[1])

    def definitions(self, computation: str) -> dict[str, int]:
        """Where each instruction of a computation begins, by name; the root also as `ROOT`."""
        found = self._definitions.get(computation)
        if found is None:
            span = self.spans.get(computation)
            if span is None:
                raise ProgramError(
                    f"The program {self.name} calls {computation!r}, which its text does not have"
                )
            found = {}
            position, end = self.text.find("\n", span[0]), span[1]
            while 0 <= position < end:
                head = _HEAD.match(self.text, position + 1)
                if head is not None:
                    found[head[2]] = position + 1
                    if head[1]:
                        found["ROOT"] = position + 1
                position = self.text.find("\n", position + 1)
            self._definitions[computation] = found
        return found

    def defined(self, computation: str, name: str) -> Instruction | None:
        """An instruction of a computation by its name; None where there is none of that name."""
        position = self.definitions(computation).get(name)
        return None if position is None else self.instruction_at(position)

    def array_type(self, computation: str, name: str) -> str:
        """The type of an instruction; empty where it gives a tuple, or there is none of that name."""
        position = self.definitions(computation).get(name)
        found = None if position is None else _ARRAY.match(self.text, position)
        return "" if found is None else found[1]

    def begins_with(self, call: Call, opcode: str) -> bool:
        """Whether the instruction of a call has this opcode; found without reading the line."""
        begin = self.text.rfind("\n", 0, call.start)
        return self.text.find(f" {opcode}(", begin, call.start) >= 0

    @cached_property
    def calls(self) -> dict[str, list[Call]]:
        """Of each computation, by whom it is called."""
        text = self.text
        listed: dict[str, list[Call]] = {}
        for key, role in _CALLS.items():
            for position in occurrences(text, key):
                caller = self.computation_at(position)
                if caller is None:
                    continue
                begin = position + len(key)
                if key.endswith("{"):
                    names = _NAME.findall(text[begin : text.find("}", begin)])
                else:
                    name = _NAME.match(text, begin)
                    names = [name[1]] if name else []
                for callee in names:
                    listed.setdefault(callee, []).append(Call(caller, position, role))
        return listed


def occurrences(text: str, word: str) -> Iterator[int]:
    """Where a text has a word; found by `str.find`, which reads some GB a second."""
    position = text.find(word)
    while position >= 0:
        yield position
        position = text.find(word, position + len(word))


def instruction(line: str) -> Instruction | None:
    """A line of a computation; None where it is none."""
    head = _HEAD.match(line)
    if head is None:
        return None
    begin = head.end()
    type_end = _closing(line, begin) if line[begin : begin + 1] == "(" else line.find(" ", begin)
    opcode = _OPCODE.match(line, type_end) if type_end > 0 else None
    if opcode is None:
        return None
    end = _closing(line, opcode.end() - 1)
    if end < 0:
        return None
    return Instruction(
        name=head[2],
        root=bool(head[1]),
        type=line[begin:type_end],
        opcode=opcode[1],
        inside=line[opcode.end() : end - 1],
        attributes=line[end:],
    )


def _closing(line: str, begin: int) -> int:
    """Behind the parenthesis that closes the one at `begin`; -1 where none does."""
    depth = 0
    for match in _PAREN.finditer(line, begin):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return -1
