"""One engine: ipyparallel's engine application in this process, made ready for nbdist."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
from typing import Any

from nbdist.engine.kernel.nanny import ForkedNanny

MOST_HEARTBEATS_MISSED = 6000
"""An engine looks for the hub's heartbeats every 0.6 s or less often: for an hour or more a controller may be
stopped, starved or out of reach. When a controller ends, its engines end with it at once, through their parents.
"""


def run_engine(folder: str, cluster_id: str, *, fork_nanny: bool) -> None:
    """Run an ipyparallel engine in this process until it is stopped.

    Args:
      folder: The session's private folder; ipyparallel's profile folder as well.
      cluster_id: Names the connection files in the folder.
      fork_nanny: Fork ipyparallel's nanny from here instead of starting an interpreter for it.
    """
    nanny = ForkedNanny() if fork_nanny else None
    _new_randomness()
    faulthandler.enable()
    from ipykernel.iostream import OutStream
    from ipyparallel.engine.app import IPEngine
    from traitlets import Type

    class OwnDescriptors(OutStream):
        """An output stream that leaves the file descriptors alone.

        ipykernel would lead them into a pipe that this same process reads, and the last words of a process
        that aborts would be lost in it. They go to the process's log, which `Descriptors` follows.
        """

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "watchfd": False})

    class Engine(IPEngine):
        """IPEngine with a nanny that costs no interpreter start."""

        out_stream_factory = Type(OwnDescriptors)

        def start_nanny(self, control_url: str) -> Any:
            if nanny is None:
                return super().start_nanny(control_url)
            return nanny.start(self, control_url)

        def init_signal(self) -> None:
            super().init_signal()
            # Block SIGTERM while the child still has this process's handler, which would drop it.
            os.register_at_fork(
                before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]),
                after_in_parent=lambda: signal.pthread_sigmask(
                    signal.SIG_UNBLOCK, [signal.SIGTERM]
                ),
                after_in_child=end_by_sigterm,
            )

    sys.argv = ["ipengine"]
    Engine.launch_instance(
        [
            f"--profile-dir={folder}",
            f"--cluster-id={cluster_id}",
            "--log-level=WARN",
            f"--IPEngine.max_heartbeat_misses={MOST_HEARTBEATS_MISSED}",
            "--IPEngine.timeout=60",
        ]
    )


def end_by_sigterm() -> None:
    """Make SIGTERM end a child that user code has forked; `multiprocessing.Pool` ends its workers so.

    The engine's own handler would stop an event loop that the child does not run.
    """
    inherited = getattr(signal.getsignal(signal.SIGTERM), "__module__", "")
    if inherited == "ipyparallel.engine.app":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _new_randomness() -> None:
    """Seed the global generators anew: otherwise all forks would draw the same numbers."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


if __name__ == "__main__":
    run_engine(sys.argv[1], sys.argv[2], fork_nanny=False)
