"""The user's line that an instruction comes from, read from the tables at the head of a program's text."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nbdist.program.hlo import Module

_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?: source_line=(\d+))?')
_NAMED = re.compile(r'(\d+) "((?:[^"\\]|\\.)*)"')
_FIELDS = re.compile(r"(\w+)=(\d+)")
_LIBRARIES = re.compile(
    r"[/\\](?:site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|^<frozen "
)
_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
"""nbdist's own folder, wherever it is installed: in a rehearsal nbdist calls the compiler."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an instruction comes from; all empty, with `line` 0, where the text does not say so."""

    operation: str = ""
    file: str = ""
    line: int = 0
    function: str = ""


class Frames:
    """The tables of a program's text.

    Args:
      module: The program; one without tables has no lines.
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
        # JAX 0.10 to 0.12 print the number of a parent with 1 added; the first frame has none, which is then 1.
        shift = 1 if frames.get(1, {}).get("parent_frame_id") == 1 else 0
        for number, fields in frames.items():
            place = places.get(fields.get("file_location_id", 0), {})
            self._places[number] = (
                files.get(place.get("file_name_id", 0), ""),
                place.get("line", 0),
                functions.get(place.get("function_name_id", 0), ""),
            )
            self._parents[number] = fields.get("parent_frame_id", 0) - shift

    def source(self, attributes: str) -> Source:
        """Return the source of an instruction: its innermost frame that lies in no library.

        Args:
          attributes: The text behind its operands.
        """
        name = _OP_NAME.search(attributes)
        operation = name[1] if name else ""
        if frame := _FRAME.search(attributes):
            return Source(operation, *self._users(int(frame[1])))
        if source := _SOURCE.search(attributes):
            return Source(operation, source[1], int(source[2] or 0))
        return Source(operation)

    def _users(self, frame: int) -> tuple[str, int, str]:
        """Return the innermost frame in no library; where all lie in libraries, the innermost frame."""
        innermost = self._places.get(frame, ("", 0, ""))
        seen: set[int] = set()
        while frame in self._places and frame not in seen:
            seen.add(frame)
            place = self._places[frame]
            if _is_users(place[0]):
                return place
            frame = self._parents[frame]
        return innermost


def _is_users(file: str) -> bool:
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
