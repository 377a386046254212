"""Comparison of compiled programs by their text: with those of other processes, or from before a repair.

The collectives of a program must be the same on all processes, or values are mixed up.
"""

from __future__ import annotations

import hashlib
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.jax.step.origins import shape_text

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
    or on numbers that XLA assigns. Source of the format: `HloModule::ToString` (jaxlib 0.10.0 to 0.12.0.1).
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


class ProgramCollectives:
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


_PLACES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
"""Tables of the source lines that operations come from, and of the calls that led there."""
_REMARKS = re.compile(r", (?:metadata=\{.*?\}(?=,|$)|backend_config=.*$)", re.MULTILINE)
"""Remarks at the end of an operation: its source, and the back end's configuration for it."""


class Recompiled:
    """The programs of each function, compared after a repair with those from before it.

    A function that `jax.jit` has compiled keeps the values that it has found in globals, closures and attributes,
    even if they are set to others later. After a repair it is compiled again, and finds the later ones. Programs
    are known as long as their function lives.
    """

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, dict[int, tuple[int, bytes]]] = (
            weakref.WeakKeyDictionary()
        )

    def note(self, function: Any, arguments: int, text: str, generation: int) -> bool:
        """Note a compiled program; return whether it was a different one before a repair.

        Args:
          function: The function that was compiled; one that allows no weak references is not compared.
          arguments: The result of `described` for its arguments; 0: not compared.
          text: The optimized HLO, without constants of more than a few elements.
          generation: The number of the back end.
        """
        try:
            its = self._known.setdefault(function, {})
        except TypeError:
            return False
        if not arguments:
            return False
        text = _REMARKS.sub("", _PLACES.sub("", text))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        before, known = its.get(arguments, (generation, digest))
        its[arguments] = generation, digest
        return before != generation and known != digest


def described(arguments: Any) -> int:
    """Return a hash of arguments that differs where a function is compiled anew; 0 if they cannot be hashed."""
    leaves, structure = sys.modules["jax"].tree_util.tree_flatten(arguments)
    try:
        return hash((structure, *map(_described, leaves)))
    except TypeError:  # a leaf cannot be hashed, so it is no static argument
        return 0


def _described(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{shape_text(leaf)} {getattr(leaf, 'sharding', None)}"
    return leaf
