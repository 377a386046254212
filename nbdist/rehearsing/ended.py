"""What became of a rehearsal's process that has ended, in words."""

from __future__ import annotations

import os
import signal

from nbdist.quantities import bytes_text


def how_it_ended(code: int | None) -> str:
    """A sentence or two.

    Args:
      code: Of its exit; negative for a signal, None where it is not known.
    """
    if code == -signal.SIGKILL:
        return (
            f"The rehearsal's process was killed (signal 9): as a rule this machine, which has {_memory()}, had "
            "not enough memory to compile. A smaller program, such as a scan over layers in place of a loop over "
            "them, needs less."
        )
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    return f"The rehearsal's process ended {how}."


def _memory() -> str:
    return bytes_text(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
