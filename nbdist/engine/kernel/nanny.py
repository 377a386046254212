"""ipyparallel's nanny, in a fork of its engine: relays signals, and reports the engine's end."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from nbdist.machine.parent_death import die_with, signal_at_end_of

ANSWER_SECONDS = 3.0
"""How long an answer of the controller is waited for, before it is asked again."""

OUT_OF_REACH_SECONDS = 60.0
"""How long the end of an engine is reported to a controller that is stopped, starved or cut off."""


class ForkedNanny:
    """ipyparallel's nanny in a process forked before any socket or thread exists.

    The nanny relays signals and reports to the hub at once when its engine ends. ipyparallel starts an
    interpreter for each (about 0.5 s of processor time); this process waits on a pipe until it is needed.
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

        ipyparallel's own sends one report and ends, and on a busy machine the hub often does not get it. Private
        API: `finish`, `notify_exit` and attributes of ipyparallel 9.2; the messages are those of its documentation
        of the hub.
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

    # Read from our own pipe: it comes from the engine that forked this process.
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
