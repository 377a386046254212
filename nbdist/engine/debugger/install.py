"""Makes `breakpoint()`, `pdb` and `%debug` in a cell ask the notebook."""

from __future__ import annotations

import bdb
import pdb
import sys
from typing import Any

from nbdist.engine.debugger.lines import Lines
from nbdist.engine.interrupts import Interrupt, InterruptHandler

NOT_THE_USERS = (
    *("nbdist.*", "IPython.*", "ipykernel.*", "ipyparallel.*", "traitlets.*"),
    *("asyncio.*", "zmq.*", "tornado.*", "threading"),
)
"""Modules in which a step does not stop: what runs a cell, shows its output and hears interrupts."""

AT_A_BREAKPOINT, AFTER_A_FAILURE = "at a breakpoint", "in a post-mortem"


def install(shell: Any, lines: Lines, interrupts: InterruptHandler) -> None:
    """Takes effect at once; call once.

    `pdb.set_trace`, `pdb.post_mortem` and Python's own `sys.breakpointhook` make a `pdb.Pdb`, which is public and
    is replaced, as ipykernel does in a kernel of its own. So are the classes that IPython's commands make.
    `PYTHONBREAKPOINT` stays what it is.
    """
    from IPython.core import debugger

    kind = debugger_class(debugger.Pdb, lines, interrupts)
    # debugpy, which ipykernel imports, has put its own there: without a client of its own it passes on.
    sys.breakpointhook = sys.__breakpointhook__
    for module in (pdb, debugger):
        vars(module)["Pdb"] = kind
    vars(debugger)["InterruptiblePdb"] = kind  # what ends with an interrupt by itself
    shell.InteractiveTB.debugger_cls = kind


def debugger_class(base: type[Any], lines: Lines, interrupts: InterruptHandler) -> type[Any]:
    """`base`, which is IPython's, with the lines of a person at the notebook."""

    class NotebookPdb(base):
        """Its loop of commands ends with an interrupt, which goes on to the cell."""

        def __init__(self, *args: Any, **options: Any) -> None:
            # A handler of SIGINT of its own would be in the place of nbdist's from the first `continue` on.
            options["nosigint"] = True
            options["skip"] = [*(options.get("skip") or ()), *NOT_THE_USERS]
            super().__init__(*args, **options)
            self._interrupt: KeyboardInterrupt | None = None
            self._what = AT_A_BREAKPOINT

        def interaction(self, frame: Any, *args: Any, **options: Any) -> None:
            """As `pdb.Pdb.interaction`; without a frame it looks at a traceback."""
            self._interrupt = None
            self._what = AT_A_BREAKPOINT if frame is not None else AFTER_A_FAILURE
            super().interaction(frame, *args, **options)
            # IPython shows an interrupt and goes on.
            if self._interrupt is not None or interrupts.leaving:
                raise self._interrupt or Interrupt

        def cmdloop(self, intro: Any = None) -> None:
            with lines.open(self._what):
                try:
                    super().cmdloop(intro)
                except KeyboardInterrupt as interrupt:
                    self._interrupt = interrupt

    return NotebookPdb


def end_tracing() -> None:
    """Ends the tracing of a debugger that a cell has left on, as `next` does at its last line."""
    if isinstance(getattr(sys.gettrace(), "__self__", None), bdb.Bdb):
        sys.settrace(None)
