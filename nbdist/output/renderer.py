"""Which renderer shows a cell's output."""

from __future__ import annotations

from typing import Any, Protocol

from nbdist.output.cell import CellOutput
from nbdist.output.layout import Name
from nbdist.output.notebook import NotebookRenderer
from nbdist.output.shown import SHOWN, Shown
from nbdist.output.terminal import TerminalRenderer


class Renderer(Protocol):
    """Shows the output of one cell while it grows."""

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Shows what is new; called often, also when nothing is; with `final` once at the end."""


def above_what_is_typed(renderer: Renderer) -> bool:
    """Whether what it shows later stands above what a person has typed meanwhile, as its outputs have places."""
    return isinstance(renderer, NotebookRenderer)


def shows_widgets(renderer: Renderer) -> bool:
    """Whether a widget that a process displays is shown as one, and not as its text."""
    return isinstance(renderer, NotebookRenderer)


def show_end(renderer: Renderer, output: CellOutput, error: str, *, raised: bool) -> None:
    """Shows that a cell has ended with an error; one that is `raised` is shown by whoever catches it.

    A renderer of a person's own knows nothing of errors: one that nobody raises is printed.
    """
    if isinstance(renderer, NotebookRenderer | TerminalRenderer):
        renderer.fail(output, error, raised=raised)
    elif not raised:
        print(error)


def renderer_elsewhere(shell: object | None) -> Renderer | None:
    """One that shows, whole, what another shows already; None where nothing can be shown twice."""
    return renderer_for(shell) if getattr(shell, "kernel", None) is not None else None


def drops_later_output(shell: object | None) -> bool:
    """Whether what a cell of the notebook shows after its end is lost.

    nbclient, which nbconvert and papermill run notebooks with, takes the output of the cell that runs alone. It is
    known by what it says of itself in each request: that nobody can be asked for input.
    """
    kernel = getattr(shell, "kernel", None)
    request = kernel.get_parent("shell") or {} if kernel is not None else {}
    return (request.get("content") or {}).get("allow_stdin") is False


def renderer_for(shell: object | None, *, name: Name | None = None) -> Renderer:
    """A renderer for one cell: that of notebooks where a Jupyter kernel's front end can change what it shows.

    Args:
      shell: What `IPython.get_ipython()` returns; None in a plain script.
      name: What output stands under; None: the processes.
    """
    # Only a shell behind a kernel has one (`ipykernel.zmqshell.ZMQInteractiveShell.kernel`).
    kernel = getattr(shell, "kernel", None)
    if kernel is None or _shows_each_output_once(kernel):
        return TerminalRenderer(name=name)
    return NotebookRenderer(name=name, shown=_shown(kernel))


def _shows_each_output_once(kernel: Any) -> bool:
    """Whether the front end passes over `update_display_data`, so that only what is printed is seen.

    Jupyter's console does, and so do QtConsole and `KernelClient.execute_interactive`. They are clients made with
    `jupyter_client`, which begins the numbers of its messages with that of its session; they ask a person for
    input, as nbclient does not, and name no cell, as pages of notebooks do.
    """
    request = kernel.get_parent("shell") or {}
    header, content = request.get("header") or {}, request.get("content") or {}
    own = f"{header.get('session')}_"
    return (
        content.get("allow_stdin") is True
        and "cellId" not in (request.get("metadata") or {})
        and str(header.get("msg_id", "")).startswith(own)
    )


def _shown(kernel: Any) -> Shown | None:
    """Where the output of the cell that runs is kept; None where the front end has not said which cell it is."""
    request = kernel.get_parent("shell") or {}
    cell = (request.get("metadata") or {}).get("cellId")
    number = (request.get("header") or {}).get("msg_id", "")
    return SHOWN.begin(cell, number) if isinstance(cell, str) else None
