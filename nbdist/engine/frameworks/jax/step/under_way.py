"""Programs under way: those whose outputs are not computed yet, and one that still runs inside its call.

On CPU a program on small arrays runs inside its call, and is counted only when the call returns. If it waits there
for other processes, another thread sees it by the call that the main thread's innermost Python frame is in.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any

from nbdist.engine.cell.main_thread import FRAME_OBJECTS_SINCE, MainThread, current_frames
from nbdist.engine.frameworks.jax.step.dispatched import Dispatched, is_array, spans


def arrays_under_way(dispatched: Dispatched, common: int, *, since: int = 0) -> list[Any]:
    """Return the outputs of a range of programs that are not computed yet.

    Args:
      dispatched: The programs.
      common: The serial of the last program in the range.
      since: The serial of the last program before the range.
    """
    return [array for array, serial in _under_way(dispatched) if since < serial <= common]


def serials_under_way(dispatched: Dispatched) -> set[int]:
    """Return the serials of the programs that have an output which is not computed yet."""
    return {serial for _, serial in _under_way(dispatched)}


def _under_way(dispatched: Dispatched) -> Iterator[tuple[Any, int]]:
    for array, (generation, serial, _) in dispatched.origins:
        if (
            generation == dispatched.generation
            and serial > 0
            and not array.is_deleted()  # jax 0.10.0 ends the process where a deleted one is asked for more
            and not _is_ready(array)
        ):
            yield array, serial


def wait_for_arrays(arrays: Iterable[Any], then: Callable[[], None]) -> None:
    """Call `then`, on a new thread, once these arrays are computed or have failed.

    A thread of its own waits, since no wait in C++ can be interrupted.
    """
    # Waiting keeps no array alive.
    references = list(map(weakref.ref, arrays))

    def wait() -> None:
        for reference in references:
            array = reference()
            if array is not None and not array.is_deleted():
                # The error of a program is raised where its arrays are used.
                with contextlib.suppress(Exception):
                    array.block_until_ready()
        then()

    threading.Thread(target=wait, name="nbdist-computed", daemon=True).start()


def _is_ready(array: Any) -> bool:
    """Return whether an array has its values; True for typed PRNG keys, which do not say: none is waited for."""
    asked = getattr(array, "is_ready", None)
    return asked is None or bool(asked())


COMPILED = "PjitFunction"
"""Name of the type of functions that `jax.jit` returns (jaxlib 0.10.0 to 0.12.0.1)."""

MOST = 10_000
"""Most objects in containers that are looked at for arrays on several processes."""


def calling(thread: MainThread) -> bool:
    """Return whether the main thread waits in C++ in a call that computes with other processes; False if unknown.

    Only names, attributes and items are followed that can be read without running code of the user's.
    """
    if sys.version_info[:3] < FRAME_OBJECTS_SINCE or not thread.waits_for_a_thread():
        return False
    frame = current_frames().get(threading.main_thread().ident or 0)
    try:
        return frame is not None and calls_over_processes(frame)
    finally:
        del frame


def raising() -> str | None:
    """Return the error, as text, that is being raised on the main thread while a `finally` or `except` runs.

    Runs no code of the user's, such as the error's own `__str__`.
    """
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error = (
        found[1] if isinstance(found, tuple) else found
    )  # until Python 3.12 a triple as from `sys.exc_info`
    if not isinstance(error, Exception):
        return None
    said = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return f"{type(error).__name__}: {said}".rstrip(": ")


def calls_over_processes(frame: FrameType) -> bool:
    """Return whether a frame is in a call of a compiled function with an array on several processes."""
    call = call_of(frame)
    if call is None or type(value_of(call.func, frame)).__name__ != COMPILED:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    values = (value_of(one.value if isinstance(one, ast.Starred) else one, frame) for one in given)
    return any(is_array(leaf) and spans(leaf) for value in values for leaf in leaves(value))


def call_of(frame: FrameType) -> ast.Call | None:
    """Return the call that a frame is in, parsed from its source; None if it is in none, or has no source."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if positions is None or None in positions:
        return None
    first, last, begin, end = (int(number or 0) for number in positions)
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if not lines:
        return None
    # Columns are counted in bytes.
    lines[-1] = lines[-1].encode()[:end].decode(errors="ignore")
    lines[0] = lines[0].encode()[begin:].decode(errors="ignore")
    try:
        found = ast.parse(f"({textwrap.dedent(''.join(lines))})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return found if isinstance(found, ast.Call) else None


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, an attribute or an item; None if finding it could run code of the user's."""
    match node:
        case ast.Name(id=name):
            for names in (frame.f_locals, frame.f_globals):
                if name in names:
                    return names[name]
        case ast.Attribute(value=holder, attr=name):
            of = value_of(holder, frame)
            return getattr(of, "__dict__", {}).get(name) if of is not None else None
        case ast.Subscript(value=holder, slice=ast.Constant(value=key)):
            of = value_of(holder, frame)
            if type(of) is dict:
                return of.get(key)
            if type(of) in (list, tuple) and isinstance(key, int) and -len(of) <= key < len(of):
                return of[key]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [value_of(part, frame) for part in parts]
    return None


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested plain containers; at most `MOST` objects are looked at."""
    waiting = [value]
    for _ in range(MOST):
        if not waiting:
            return
        one = waiting.pop()
        if type(one) is dict:
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        else:
            yield one
