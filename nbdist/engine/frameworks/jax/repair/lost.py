"""Lost arrays: their use raises an error that says which it is, why it was lost, and where it was made."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.private import base_array, on_deleted
from nbdist.errors import LostArrayError


class LostArrays:
    """The lost arrays of this process, each with the sentence that says why it was lost."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def note(self, namespace: dict[str, object], texts: Mapping[str, str]) -> None:
        """Note the deleted arrays at these paths.

        Args:
          namespace: The user's namespace.
          texts: The sentence for the array at each path.
        """
        import jax

        for path, array in array_paths(namespace, jax.Array).items():
            if path in texts and array.is_deleted():
                held = base_array(array)  # a typed key is used through the array that it holds
                forget = functools.partial(self._known.pop, id(held))
                self._known[id(held)] = weakref.ref(held, forget), texts[path]
        if self._known:
            on_deleted(self._error)

    def _error(self, array: Any) -> LostArrayError | None:
        """Return the error for a deleted array; None for one that was not lost, but donated or deleted."""
        reference, text = self._known.get(id(array), (None, ""))
        if reference is None or reference() is not array:
            return None
        error = LostArrayError(text)
        render = functools.partial(_rendered, weakref.ref(error))
        error._render_traceback_ = render  # type: ignore[attr-defined]
        return error


@functools.cache
def lost_arrays() -> LostArrays:
    """Return the lost arrays of this process."""
    return LostArrays()


def _rendered(reference: weakref.ref[BaseException]) -> list[str]:
    """Return IPython's traceback of an error, without JAX's frames at its end."""
    error = reference()
    shell = sys.modules["IPython"].get_ipython()
    trace = None if error is None else _without_jax(error.__traceback__)
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, trace)
    return lines


def _without_jax(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback that ends with the last frame outside JAX and nbdist's part for JAX."""
    inside = (f"{Path(sys.modules['jax'].__file__ or '').parent}/", str(Path(__file__).parents[1]))
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    while len(entries) > 1 and entries[-1].tb_frame.f_code.co_filename.startswith(inside):
        entries.pop()
    kept: TracebackType | None = None
    for one in reversed(entries):
        kept = types.TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept
