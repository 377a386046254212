"""nbdist: one notebook, every process of a multi-host job, and a live picture of its devices.

In a notebook: `%load_ext nbdist`, then `%dist_init`. In Python: `nbdist.start(…)`.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any

from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.session import Session

# As libraries do: what is logged goes where the user's program says, and nowhere by itself.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = ["Session", "__version__", "attach", "checkpoint", "current", "start"]


def start(processes: int | None = None, **options: Any) -> Session:
    """Starts processes on this machine, or where the options say, and joins them to one cluster.

    Args:
      processes: How many; by default 2 on CPU, one a GPU, one a host.
      **options: Those of `%dist_init`, with underscores: `devices_per_process=2`, `platform="cpu"`,
        `framework="keras"`, `hosts="h1:2,h2:2"`, `slurm=True`, `nodes=2`, `keep=True` and so on;
        `%dist_init --help` lists all. `nbdist.attach` goes back to a session that was kept.

    Returns:
      A `Session`, also a context manager that stops what it started.
    """
    from nbdist.starting import start_session

    return start_session(processes, **options)


def attach(word: str = "last", **options: Any) -> Session:
    """Takes part in a session that runs; see `nbdist.starting.attach_session`.

    Returns:
      A `Session`. As a context manager it stops what nbdist has kept, and leaves what somebody else has started.
    """
    from nbdist.starting import attach_session

    return attach_session(word, **options)


def checkpoint() -> None:
    """A point of a loop at which all processes can leave it together; to be called once a step, on all.

    An interrupt, and `%dist_interrupt --stop-at-step`, are raised here as `KeyboardInterrupt`, before the same
    step on all processes, so that they are in step afterwards and nothing of a step is lost. An interrupt waits
    for the next call a second at most. Keras' `fit`, `evaluate` and `predict` do this by themselves before each
    batch. In a process that is not one of a session this does nothing.

    Raises:
      KeyboardInterrupt: The cell was stopped.
    """
    module = sys.modules.get("nbdist.engine.kernel.resident")
    resident = None if module is None else module.Resident.there()
    if resident is not None:
        resident.checkpoint()


def current() -> Session | None:
    """The session that `%dist_init` started in this notebook, or None."""
    from IPython import get_ipython

    shell = get_ipython()
    magics = shell.magics_manager.registry.get("DistMagics") if shell else None
    return magics.session if magics else None


def __getattr__(name: str) -> Any:
    if name == "Session":
        from nbdist.session import Session

        return Session
    if name in ("keras", "tensorflow"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext nbdist`: registers magics, starts nothing."""
    from nbdist.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext nbdist`: ends the session and takes all back."""
    from nbdist.magics import unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "nbdist-labextension"}]
