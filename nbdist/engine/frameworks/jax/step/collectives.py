"""Collectives in compiled programs: they must be the same on all processes, or values are mixed up."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any

_OPERATION = re.compile(
    r" = (?P<shape>\([^=]*?\)|\S+) (?P<kind>all-reduce|all-gather|all-to-all|reduce-scatter|ragged-all-to-all"
    r"|collective-permute|collective-broadcast)(?:-start)?\((?P<rest>.*)"
)
_COMPUTATION = re.compile(r"^\s*%?(?P<name>[\w.-]+) \(.*\{$")
_ROOT = re.compile(r"^\s*ROOT %?[\w.-]+ = \S+ (?P<operation>[\w-]+)\(")
_APPLIED = re.compile(r"to_apply=%?([\w.-]+)")
_AMONG = re.compile(
    r"(?:replica_groups|source_target_pairs|dimensions)=.*?(?=, [a-z_]+=|, metadata|$)"
)
_COMMENT = re.compile(r"/\*.*?\*/")
_LAYOUT = re.compile(r"(?<=\])\{[^}]*\}")


def collectives(text: str) -> str:
    """Return one line for each collective of an optimized HLO module.

    An example is `all-reduce(add) f32[] replica_groups=[1,4]<=[4]`. No line depends on the process, on file names
    or on numbers that XLA gives. Source of the format: `HloModule::ToString` (jaxlib 0.10.0 to 0.12.0.1).
    """
    text = _COMMENT.sub("", text)
    combines: dict[str, str] = {}
    computation = ""
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header["name"]
        elif root := _ROOT.match(line):
            combines[computation] = root["operation"]
    found = []
    for one in _OPERATION.finditer(text):
        applied = _APPLIED.search(one["rest"])
        with_what = f"({combines.get(applied[1], '?')})" if applied else ""
        among = " ".join(_AMONG.findall(one["rest"]))
        shape = _LAYOUT.sub("", one["shape"])
        found.append(f"{one['kind']}{with_what} {shape} {among}".rstrip())
    return "\n".join(found)


class Collectives:
    """Collectives of programs, each read once; no program is kept alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()

    def __contains__(self, program: Any) -> bool:
        """Return whether a program was read before."""
        return program in self._known

    def read(self, program: Any, modules: Callable[[], Any]) -> str | None:
        """Read a new program; return its HLO text, None if the back end does not give it.

        Args:
          program: The object by which the program is known.
          modules: Returns the program's HLO modules.
        """
        self._known[program] = None
        try:
            texts = [m.to_string() for m in modules()]
        except Exception:  # noqa: BLE001 - the back end cannot give the text
            return None
        self._known[program] = "\n".join(map(collectives, texts))
        return "\n".join(texts)

    def of(self, program: Any) -> str | None:
        """Return the collectives of a program that was read; None if the back end does not give its text."""
        return self._known.get(program)
