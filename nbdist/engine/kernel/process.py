"""One engine: ipyparallel's engine application in this process, made ready for nbdist."""

from __future__ import annotations

import faulthandler
import os
import pickle
import random
import signal
import sys
import time
from types import FrameType
from typing import Any

MOST_HEARTBEATS_MISSED = 6000
"""An engine looks for the hub's heartbeats every 0.6 s or less often: for an hour and more a controller may be
stopped, starved or out of reach. One that ends takes its engines with it at once, through their parents.
"""

REPORT_SECONDS = 0.1
"""What sending a message on this machine, or into a connection that is there, may take."""


def run_engine(folder: str, cluster_id: str, *, fork_nanny: bool) -> None:
    """Runs an ipyparallel engine in this process until it is stopped.

    Args:
      folder: The session's private folder; ipyparallel's profile folder as well.
      cluster_id: Names the connection files in it.
      fork_nanny: Fork ipyparallel's nanny from here instead of starting an interpreter for it.
    """
    nanny = ForkedNanny() if fork_nanny else None
    _new_randomness()
    faulthandler.enable()
    from ipykernel.iostream import OutStream
    from ipyparallel.engine.app import IPEngine
    from traitlets import Type

    class OwnDescriptors(OutStream):
        """Leaves the file descriptors alone.

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


class ForkedNanny:
    """ipyparallel's nanny in a process forked before any socket or thread exists.

    The nanny relays signals and reports to the hub at once when its engine ends. ipyparallel starts an
    interpreter for each (about 0.5 s of processor time); this waits on a pipe until it is needed.
    """

    def __init__(self) -> None:
        wanted, self._wanted = os.pipe()
        self._ready, ready = os.pipe()
        engine = os.getpid()
        if os.fork() == 0:
            os.close(self._wanted)
            os.close(self._ready)
            os.setsid()
            _be_nanny(wanted, ready, engine)
            os._exit(0)
        os.close(wanted)
        os.close(ready)

    def start(self, engine: Any, control_url: str) -> tuple[str, Any]:
        """Hands the nanny what it needs.

        Returns:
          The address the engine's control socket connects to, and what must be kept open for
          the nanny to stay.

        Private API: the arguments of `ipyparallel.engine.nanny.KernelNanny` are those that
        `ipyparallel.engine.app.IPEngine.start_nanny` passes in 9.2.
        """
        from traitlets.config import Config

        config = Config()
        config.Session = engine.config.Session
        arguments = {
            "pid": os.getpid(),
            "engine_id": engine.id,
            "identity": engine.bident,
            "control_url": control_url,
            "curve_serverkey": engine.curve_serverkey,
            "curve_secretkey": engine.curve_secretkey,
            "curve_publickey": engine.curve_publickey,
            "registration_url": engine.registration_url,
            "config": config,
        }
        with os.fdopen(self._wanted, "wb") as pipe:
            pickle.dump(arguments, pipe)
        answers = os.fdopen(self._ready)
        address = answers.readline().strip()
        if not address:
            raise RuntimeError("ipyparallel's nanny did not start; see the log above.")
        return address, answers


def _be_nanny(wanted: int, ready: int, engine: int) -> None:
    from nbdist.machine.parent_death import die_with

    die_with(engine)
    with os.fdopen(wanted, "rb") as pipe:
        data = pipe.read()
    if not data:
        return
    from ipyparallel.engine.nanny import KernelNanny

    class Nanny(KernelNanny):
        """Reports the end of its engine, and ends a moment later, also where no controller is there any more.

        ipyparallel's own waits up to three seconds for one. Private API: `finish` and `_finish_called` of
        ipyparallel 9.2; where they have gone, the process ends without a report.
        """

        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            signal.signal(signal.SIGTERM, self._end)
            die_with(engine, signal.SIGTERM)

        def _end(self, number: int, frame: FrameType | None) -> None:
            try:
                if not self._finish_called:
                    self.finish()
                    time.sleep(REPORT_SECONDS)
            finally:
                os._exit(0)

    # Read from our own pipe: it comes from the engine that forked this process.
    Nanny.main(**pickle.loads(data), pipe=os.fdopen(ready, "w", 1))


def _new_randomness() -> None:
    """Seeds the global generators anew: forks would all draw the same numbers."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


if __name__ == "__main__":
    run_engine(sys.argv[1], sys.argv[2], fork_nanny=False)
