"""Stacks of all threads of this process, as text, read from any of them."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable

from nbdist.contract.questions import ThreadStack
from nbdist.engine.cell.code_owners import Line
from nbdist.engine.cell.main_thread import stack_reader

MOST_LINES = 200
"""Most lines of one stack, the innermost ones."""

CodeName = Callable[[str], "tuple[str, str] | None"]
"""Returns IPython's name for code of this file name, such as `("Cell", "In[3]")`; None for a real file."""


def stacks(code_name: CodeName) -> tuple[ThreadStack, ...]:
    """Return the stacks of the main thread, which comes first, and of all others but the one that calls."""
    read = stack_reader(sys.version_info[:3])
    main, here = threading.main_thread(), threading.get_ident()
    others = [t for t in threading.enumerate() if t is not main and t.ident != here]
    return tuple(
        ThreadStack(
            name=thread.name,
            lines=tuple(
                _text(line, code_name) for line in reversed(read(thread.ident)[:MOST_LINES])
            ),
        )
        for thread in (main, *others)
        if thread.ident is not None
    )


def _text(line: Line, code_name: CodeName) -> str:
    """Return an entry as a line of text, such as `Cell In[3], line 4, in step: y = f(x)`."""
    name = code_name(line.filename)
    where = line.filename if name is None else " ".join(name)
    source = linecache.getline(line.filename, line.line or 0).strip()
    at = f"{where}, line {line.line}, in {line.function}"
    return f"{at}: {source}" if source else at
