"""Which renderer shows a cell's output."""

from __future__ import annotations

from typing import Protocol

from nbdist.output.cell import CellOutput
from nbdist.output.layout import Name
from nbdist.output.notebook import NotebookRenderer
from nbdist.output.terminal import TerminalRenderer


class Renderer(Protocol):
    """Shows the output of one cell while it grows."""

    in_place: bool
    """Whether it shows what comes later above what stands below it now, such as what a person has typed."""

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Shows what is new; called often, also when nothing is; with `final` once at the end."""


def renderer_elsewhere(shell: object | None) -> Renderer | None:
    """One that shows, whole, what another shows already; None where nothing can be shown twice."""
    return renderer_for(shell) if getattr(shell, "kernel", None) is not None else None


def renderer_for(shell: object | None, *, name: Name | None = None) -> Renderer:
    """A renderer for one cell: that of notebooks where the shell is a Jupyter kernel's.

    Args:
      shell: What `IPython.get_ipython()` returns; None in a plain script.
      name: What output stands under; None: the processes.
    """
    # Only a shell behind a kernel has one (`ipykernel.zmqshell.ZMQInteractiveShell.kernel`).
    if getattr(shell, "kernel", None) is not None:
        return NotebookRenderer(name=name)
    return TerminalRenderer(name=name)
