"""Recompiled programs: compared, after a repair, with the programs from before it.

A function that `jax.jit` has compiled keeps the values that it has found in globals, closures and attributes, even
if they are set to others later. After a repair it is compiled again, and finds the later ones.
"""

from __future__ import annotations

import hashlib
import re
import sys
import weakref
from typing import Any

from nbdist.engine.frameworks.jax.step.announced import shape_text

_PLACES = re.compile(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*")
"""Tables of the source lines that operations come from, and of the calls that led there."""
_REMARKS = re.compile(r", (?:metadata=\{.*?\}(?=,|$)|backend_config=.*$)", re.MULTILINE)
"""Remarks at the end of an operation: its source, and the back end's configuration for it."""


class Recompiled:
    """The programs of each function, kept as long as the function lives."""

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
    """Return a hash of arguments, different where a function is compiled anew; 0 if they cannot be hashed."""
    leaves, structure = sys.modules["jax"].tree_util.tree_flatten(arguments)
    try:
        return hash((structure, *map(_described, leaves)))
    except TypeError:  # a leaf cannot be hashed, so it is no static argument
        return 0


def _described(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return f"{shape_text(leaf)} {getattr(leaf, 'sharding', None)}"
    return leaf
