"""Text of a compiled program: its computations and their calls, its instructions, types and lines of source.

`compiled.as_text()` may have 50 MB. So it is searched for a few words, and only the lines with one of them are
parsed.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from math import prod
from pathlib import Path
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
        """Names of the instructions whose values this one takes."""
        return tuple(_OPERAND.findall(self.inside))


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call: the computation and the place in the text of an instruction that runs another one, and its role."""

    caller: str
    start: int
    role: Role


class Module:
    """The text of a program, in parts.

    Args:
      text: The result of `compiled.as_text()`.

    Raises:
      ProgramError: The text is not a program, or is incomplete.
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
        # The counts may be anywhere in the first line, after types of any length.
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
        """Find the computations: each begins in the first column and ends with a brace in the first column."""
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
        """Return the computation that contains this position; None outside all computations."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position > self.spans[self._names[index]][1]:
            return None
        return self._names[index]

    def line_at(self, position: int) -> tuple[int, str]:
        """Return where the line with this position begins, and the line."""
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        return start, self.text[start : end if end >= 0 else None]

    def instruction_at(self, position: int) -> Instruction | None:
        """Return the instruction in the line at this position; None if the line has none."""
        return instruction(self.line_at(position)[1])

    def instructions_with(self, *words: str) -> Iterator[tuple[str, Instruction]]:
        """Yield (computation name, instruction) once for each instruction whose line has one of the words."""
        last = -1
        for place in sorted(chain.from_iterable(occurrences(self.text, word) for word in words)):
            start, line = self.line_at(place)
            computation, found = self.computation_at(place), instruction(line)
            if start != last and computation is not None and found is not None:
                last = start
                yield computation, found

    def definitions(self, computation: str) -> dict[str, int]:
        """Return where each instruction of a computation begins, by name; the root also as `ROOT`."""
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
        """Return an instruction of a computation by its name; None if there is none."""
        position = self.definitions(computation).get(name)
        return None if position is None else self.instruction_at(position)

    def array_type(self, computation: str, name: str) -> str:
        """Return the type of an instruction; empty if it returns a tuple or does not exist."""
        position = self.definitions(computation).get(name)
        found = None if position is None else _ARRAY.match(self.text, position)
        return "" if found is None else found[1]

    def begins_with(self, call: Invocation, opcode: str) -> bool:
        """Return whether the instruction of a call has this opcode, without reading the line."""
        begin = self.text.rfind("\n", 0, call.start)
        return self.text.find(f" {opcode}(", begin, call.start) >= 0

    @cached_property
    def calls(self) -> dict[str, list[Invocation]]:
        """Calls of each computation, by its name."""
        text = self.text
        listed: dict[str, list[Invocation]] = {}
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
                    listed.setdefault(callee, []).append(Invocation(caller, position, role))
        return listed


def occurrences(text: str, word: str) -> Iterator[int]:
    """Yield the positions of a word in a text, with `str.find`, which reads some GB a second."""
    position = text.find(word)
    while position >= 0:
        yield position
        position = text.find(word, position + len(word))


def instruction(line: str) -> Instruction | None:
    """Return the instruction in a line of a computation; None if there is none."""
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
    """Return the position after the parenthesis that closes the one at `begin`; -1 if none does."""
    depth = 0
    for match in _PAREN.finditer(line, begin):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return -1


_ARRAY_TYPE = re.compile(r"\b([a-z][a-z0-9]*)\[([^\[\]]*)\]")
_NUMBER = re.compile(r"(?:bf|f|s|u|c)(\d+)")
_WITHOUT_DATA = ("token", "opaque")


@dataclass(frozen=True, slots=True)
class Shape:
    """Type and shape of one array.

    Attributes:
      dtype: The type as XLA writes it: `f32`, `bf16`, `pred`, `f8e4m3fn`.
      dims: The size of each axis; for an axis of dynamic size, the largest size.
    """

    dtype: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes without a layout's padding; numbers smaller than a byte are packed densely."""
        return (prod(self.dims) * _bits(self.dtype) + 7) // 8

    def __str__(self) -> str:
        """Return `f32[8,256]`."""
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@lru_cache(maxsize=4096)
def shapes_in(text: str) -> tuple[Shape, ...]:
    """Return all arrays of a type in the text; tokens are left out.

    A type is one array's, `f32[8,256]{1,0:T(8,128)}`, or a tuple of such types.

    Raises:
      ProgramError: The numbers of an array are of an unknown type, or its shape cannot be read.
    """
    found = []
    for dtype, dims in _ARRAY_TYPE.findall(text):
        if dtype in _WITHOUT_DATA:
            continue
        _bits(dtype)
        try:
            sizes = tuple(int(size.strip().removeprefix("<=")) for size in dims.split(",") if size)
        except ValueError:
            raise ProgramError(
                f"The program's text has a shape that cannot be read: {dtype}[{dims}]"
            ) from None
        found.append(Shape(dtype, sizes))
    return tuple(found)


def _bits(dtype: str) -> int:
    if dtype == "pred":
        return 8
    number = _NUMBER.match(dtype)
    if number is None or not 1 <= int(number[1]) <= 128:
        raise ProgramError(
            f"The program's text has numbers of a type that is not known here: {dtype!r}. Known: pred, and s, u, "
            "f, bf and c with a number of bits."
        )
    return int(number[1])


_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')
_NAMED = re.compile(r'(\d+) "((?:[^"\\]|\\.)*)"')
_FIELDS = re.compile(r"(\w+)=(\d+)")
_LIBRARIES = re.compile(
    r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|^<frozen "
)
_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""nbdist's own folder, wherever it is installed: in a rehearsal nbdist calls the compiler."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The user's line that an instruction comes from; empty, with `line` 0, if the text does not name it."""

    operation: str = ""
    file: str = ""
    line: int = 0
    function: str = ""


class FrameTables:
    """The tables at the head of a program's text, from which the line of an instruction is read.

    Args:
      module: The program; without tables no lines are known.
    """

    def __init__(self, module: Module) -> None:
        text = module.text
        first = min((span[0] for span in module.spans.values()), default=len(text))
        tables = _tables(text[text.find("\n") : first])
        files = dict(map(_named, tables.get("FileNames", ())))
        functions = dict(map(_named, tables.get("FunctionNames", ())))
        places = dict(map(_fields, tables.get("FileLocations", ())))
        self._parents: dict[int, int] = {}
        self._places: dict[int, tuple[str, int, str]] = {}
        frames = dict(map(_fields, tables.get("StackFrames", ())))
        # JAX 0.10 to 0.12 print a parent's number plus 1; the first frame has no parent, printed as 1.
        shift = 1 if frames.get(1, {}).get("parent_frame_id") == 1 else 0
        for number, fields in frames.items():
            place = places.get(fields.get("file_location_id", 0), {})
            self._places[number] = (
                files.get(place.get("file_name_id", 0), ""),
                place.get("line", 0),
                functions.get(place.get("function_name_id", 0), ""),
            )
            self._parents[number] = fields.get("parent_frame_id", 0) - shift

    def source(self, attributes: str) -> SourceLine:
        """Return the source of an instruction: its innermost frame outside libraries.

        Args:
          attributes: The text after the instruction's operands.
        """
        name = _OP_NAME.search(attributes)
        operation = name[1] if name else ""
        if frame := _FRAME.search(attributes):
            return SourceLine(operation, *self._users(int(frame[1])))
        if source := _SOURCE.search(attributes):
            return SourceLine(operation, source[1], int(source[2] or 0))
        return SourceLine(operation)

    def _users(self, frame: int) -> tuple[str, int, str]:
        """Return the innermost frame outside libraries; if there is none, the innermost frame."""
        innermost = self._places.get(frame, ("", 0, ""))
        seen: set[int] = set()
        while frame in self._places and frame not in seen:
            seen.add(frame)
            place = self._places[frame]
            if is_users(place[0]):
                return place
            frame = self._parents[frame]
        return innermost


def is_users(file: str) -> bool:
    """Return whether a file is the user's: not nbdist's, the standard library's or an installed package's."""
    return bool(file) and not file.startswith(_PACKAGE) and not _LIBRARIES.search(file)


def _tables(head: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in head.splitlines():
        if not line.strip():
            current = None
        elif line[0].isalpha():
            current = found.setdefault(line.strip(), [])
        elif current is not None:
            current.append(line.strip())
    return found


def _named(line: str) -> tuple[int, str]:
    match = _NAMED.match(line)
    return (int(match[1]), match[2]) if match else (0, "")


def _fields(line: str) -> tuple[int, dict[str, int]]:
    number, _, rest = line.partition(" ")
    fields = {key: int(value) for key, value in _FIELDS.findall(rest)}
    return (int(number), fields) if number.isdigit() else (0, fields)
