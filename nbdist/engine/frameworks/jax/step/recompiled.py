"""Programs that are compiled again after a repair, compared with what they were before it.

A function that `jax.jit` has compiled goes on with the values that it has found in globals, closures and
attributes, whatever is set there later. After a repair it is compiled again, and finds the later ones.
"""

from __future__ import annotations

import hashlib
import re
import sys
import weakref
from typing import Any

from nbdist.engine.frameworks.jax.step.announced import shape_text

_PLACES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
"""Of the lines that an operation comes from, and by which way it was called."""
_REMARKS = re.compile(r", (?:metadata=\{.*?\}(?=,|$)|backend_config=.*$)", re.MULTILINE)
"""At the end of an operation: where it comes from, and how the back end goes about it."""


class Recompiled:
    """The programs of each function, as long as that lives."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, dict[int, tuple[int, bytes]]] = (
            weakref.WeakKeyDictionary()
        )

    def note(self, function: Any, arguments: int, text: str, generation: int) -> bool:
        """Note a program that was compiled; answer whether it was another one before a repair.

        Args:
          function: Of which it was compiled; one that cannot be referred to weakly is not compared.
          arguments: As `described` has them.
          text: Its optimized HLO. Constants of more than a few elements are not in it.
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
    """Return what tells arguments of a function from others with which it is compiled again; 0: nothing does."""
    leaves, structure = sys.modules["jax"].tree_util.tree_flatten(arguments)
    try:
        return hash((structure, *map(_described, leaves)))
    except TypeError:  # what cannot be hashed is no static argument
        return 0


def _described(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{shape_text(leaf)} {getattr(leaf, 'sharding', None)}"
    return leaf
