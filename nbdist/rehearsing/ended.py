"""The end of a rehearsal's process, in words."""

from __future__ import annotations

import os
import re
import signal

from nbdist.quantities import bytes_text

LOOKED_AT = 65536
"""Characters of the last output that are searched for the words for a lack of memory; after these words come a
hundred lines of how the compiler aborts."""

_NO_MEMORY = re.compile(r"Cannot allocate memory|mmap error: 12\b|bad_alloc")
"""The messages of libtpu, the C library and C++."""


def how_it_ended(code: int | None, said: str = "") -> str:
    """Return a sentence or two about how a process ended.

    Args:
      code: Its exit code; negative for a signal, None where it is not known.
      said: Its last output; empty where that went elsewhere.
    """
    if code == -signal.SIGKILL:
        return (
            f"The rehearsal's process was killed (signal 9): as a rule this machine, which has {_memory()}, had "
            f"not enough memory to compile. {_LESS}"
        )
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    ended = f"The rehearsal's process ended {how}"
    if lacks_memory(code, said):
        return (
            f"{ended}: it was given no more memory to compile. This machine has {_memory()}; a limit may be lower "
            f"(ulimit -v). {_LESS}"
        )
    if code is not None and code < 0 and not said:
        return f"{ended}. Where its last words above speak of memory: this machine has {_memory()}. {_LESS}"
    return f"{ended}."


def lacks_memory(code: int | None, said: str) -> bool:
    """Return whether a process ended for want of memory; arguments as for `how_it_ended`."""
    aborted = code is not None and code < 0
    return code == -signal.SIGKILL or (aborted and _NO_MEMORY.search(said) is not None)


_LESS = "A smaller program, such as a scan over layers in place of a loop over them, needs less."


def _memory() -> str:
    return bytes_text(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
