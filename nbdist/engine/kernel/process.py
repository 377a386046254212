"""The process of one engine: ipyparallel's engine application, made ready for nbdist, and its nanny in a fork.

`run_engine` is the program of the process. The nanny (`ForkedNanny`) relays signals and reports the engine's end.
An engine goes on while its controller is out of reach, for an hour or more (`MOST_HEARTBEATS_MISSED`).
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import pickle
import random
import signal
import socket
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from nbdist.machine.processes import die_with, signal_at_end_of

ANSWER_SECONDS = 3.0
"""Longest wait for an answer of the controller before it is asked again."""

OUT_OF_REACH_SECONDS = 60.0
"""Longest time in which the end of an engine is reported to a controller that is stopped, starved or cut off."""


class ForkedNanny:
    """ipyparallel's nanny in a process forked before any socket or thread exists.

    The nanny relays signals, and reports to the hub at once when its engine ends. ipyparallel starts an
    interpreter for each (about 0.5 s of processor time); the forked process waits on a pipe until it is needed.
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
        """Send the nanny its arguments.

        Returns:
          The address to which the engine's control socket connects, and an object that must stay open for
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
    die_with(engine)
    with os.fdopen(wanted, "rb") as pipe:
        data = pipe.read()
    if not data:
        return
    import zmq
    from ipyparallel.engine.nanny import KernelNanny
    from ipyparallel.util import connect

    class Nanny(KernelNanny):
        """A nanny that reports its engine's end until the hub knows it, and ends at once where no controller is.

        ipyparallel's own nanny sends one report and ends, and on a busy machine the hub often does not get it.
        Private API: `finish`, `notify_exit` and attributes of ipyparallel 9.2; the messages are those of its
        documentation of the hub.
        """

        async def start(self) -> None:
            await super().start()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.finish)
            if not signal_at_end_of(engine, signal.SIGTERM):
                self.finish()

        def notify_exit(self) -> None:
            deadline = time.monotonic() + OUT_OF_REACH_SECONDS
            while time.monotonic() < deadline and not is_refused(self.registration_url):
                if self._hub_knows():
                    break
            os._exit(0)

        def _hub_knows(self) -> bool:
            """Report the end; return whether the hub, which answers only a request for its engines, knows it."""
            with self.context.socket(zmq.DEALER) as hub:
                hub.LINGER = 0
                connect(
                    hub,
                    self.registration_url,
                    curve_serverkey=self.curve_serverkey,
                    curve_secretkey=self.curve_secretkey,
                    curve_publickey=self.curve_publickey,
                )
                self.session.send(hub, "unregistration_request", content={"id": self.engine_id})
                self.session.send(hub, "connection_request")
                if not hub.poll(1000 * ANSWER_SECONDS):
                    return False
                _, frames = self.session.feed_identities(hub.recv_multipart())
                answer = self.session.deserialize(frames)
            return str(self.engine_id) not in answer["content"].get("engines", {})

    # The pickle comes through a pipe from the engine that forked this process.
    Nanny.main(**pickle.loads(data), pipe=os.fdopen(ready, "w", 1))


def is_refused(url: str) -> bool:
    """Return whether nobody listens at a `tcp://host:port`; False if the host cannot be reached for now."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=1.0).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


MOST_HEARTBEATS_MISSED = 6000
"""Most heartbeats of the hub that an engine misses before it gives up.

An engine looks for a heartbeat every 0.6 s or less often: for an hour or more a controller may be stopped,
starved or out of reach. When a controller ends, its engines end with it at once, through their parents."""


def run_engine(folder: str, cluster_id: str, *, fork_nanny: bool) -> None:
    """Run an ipyparallel engine in this process until it is stopped.

    Args:
      folder: The session's private folder, which is ipyparallel's profile folder as well.
      cluster_id: The id in the names of the connection files in the folder.
      fork_nanny: Whether to fork ipyparallel's nanny from this process instead of starting an interpreter for it.
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
    """Make SIGTERM end a child that user code has forked, as `multiprocessing.Pool` ends its workers.

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
