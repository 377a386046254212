"""ipyparallel's two programs on a host, the controller and an engine, each in a process of its own, and the nanny.

`run_controller` and `run_engine` are these programs. The nanny (`ForkedNanny`) relays signals to an engine and
reports its end. An engine goes on while its controller is out of reach, for an hour or more
(`MOST_HEARTBEATS_MISSED`).

This module has all private API of ipyparallel that hosts use; `nbdist.launch.start.client` has the kernel's. Both
override methods of ipyparallel's classes; they are apart since a host needs no client.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import random
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nbdist.machine.folder import connections, write_private
from nbdist.machine.ports import ReservedPorts, is_taken
from nbdist.machine.processes import die_with, signal_at_end_of

PORTS = 32
"""Ports for a controller: more than ipyparallel's takes (15 in 9.2), besides the ports for engines behind ssh."""

AGAIN = ("--IPController.reuse_files=True", "--IPController.restore_engines=True")
"""The same as `ipcontroller --restore`: ports and key from the connection files, engines from the file of their
names."""

FREE_SECONDS = 3.0
"""How long the ports of an ended controller may take to become free: its children end a moment later."""

CHANNELS = (
    *("registration", "control", "mux", "task", "iopub", "notification"),
    *("hb_ping", "hb_pong", "broadcast"),
)
"""The channels whose ports a connection file lists (ipyparallel 9.2)."""


def run_controller(
    arguments: Sequence[str], *, folder: str, cluster_id: str, again: bool = False
) -> None:
    """Run the controller with this command line, until it is asked to end.

    All its sockets are encrypted (CURVE), on one machine too: without that, anybody who reaches a port of the
    loopback address is sent what cells print, and a few random bytes at the request port end a relay for good.

    By itself the controller takes ports that were free a moment ago, from the range that the system gives to any
    program. If the port for the output relay is gone by then, the controller goes on without that relay, and
    nothing that processes publish ever arrives.

    Args:
      arguments: The command line.
      folder: The session's private folder; ipyparallel's profile folder as well.
      cluster_id: Names the connection files in the folder.
      again: Take the place of a controller that has ended: listen at the same ports with the same keys, and know
        the engines that were registered, so that all sockets that were connected to it connect to this one.
    """
    from ipyparallel.controller import heartmonitor, hub
    from ipyparallel.controller.app import IPController

    class Controller(IPController):
        """A controller that leaves the connection files to its successor; they are removed with the folder."""

        def cleanup_connection_files(self) -> None:
            """Do nothing."""

        def init_hub(self) -> None:
            """Make the hub, and keep the file of the engines' names as it was.

            ipyparallel (9.2) writes that file while it reads it, and with 0 as the next id. The controller after
            this one would give a new engine the id of another.
            """
            names = {path: path.read_bytes() for path in Path(folder, "log").glob("engines*.json")}
            super().init_hub()
            for path, content in names.items():
                path.write_bytes(content)

    monitor = getattr(heartmonitor, "HeartMonitor", None)
    take_late_answers(monitor)
    beat_as_needed(monitor, getattr(hub, "Hub", None))
    if again:
        refuse_taken_ports(folder, cluster_id)
        arguments = [*arguments, *AGAIN]
    os.environ.update(curve_keys(folder, again=again))
    with closing(ReservedPorts()) as reserved:
        ports = ",".join(map(str, reserved.reserve(PORTS)))
        Controller.launch_instance(
            [*arguments, "--IPController.enable_curve=True", f"--IPController.ports={ports}"]
        )


def curve_keys(folder: str, *, again: bool) -> dict[str, str]:
    """Return the controller's pair of keys (CURVE, in Z85) as ipyparallel's variables; keep it in a private file.

    Args:
      folder: The session's private folder.
      again: Whether to take the keys of the controller before this one.

    Raises:
      OSError: There are no earlier keys, or the new ones cannot be written.
    """
    import zmq

    path = Path(folder) / "security" / "controller-keys.json"
    if again:
        kept: dict[str, str] = json.loads(path.read_text())
        return kept
    public, secret = zmq.curve_keypair()
    keys = {"IPP_CURVE_PUBLICKEY": public.decode(), "IPP_CURVE_SECRETKEY": secret.decode()}
    write_private(path, keys)
    return keys


def refuse_taken_ports(folder: str, cluster_id: str) -> None:
    """End this process if another program listens at a port of the controller before this one.

    By itself, ipyparallel's controller would go on without a relay that cannot listen.

    Raises:
      SystemExit: Another program listens there; the message names the ports.
    """
    wanted = {
        (connection["interface"].rpartition("/")[2], port)
        for path in connections(folder, cluster_id)
        for connection in [json.loads(path.read_text())]
        for port in _ports(connection)
    }
    until = time.monotonic() + FREE_SECONDS
    while (taken := {port for host, port in wanted if is_taken(host, port)}) and (
        time.monotonic() < until
    ):
        time.sleep(0.05)
    if taken:
        raise SystemExit(
            f"Another program listens at {', '.join(map(str, sorted(taken)))}, where the controller before this "
            "one listened, and where all processes connect."
        )


def _ports(connection: Mapping[str, Any]) -> list[int]:
    values = [connection.get(name) for name in CHANNELS]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [port for ports in lists for port in ports if isinstance(port, int)]


def take_late_answers(monitor: Any) -> bool:
    """Make the controller take an answer to any heartbeat as a sign of life, however long it was on its way.

    Private API: `ipyparallel.controller.heartmonitor.HeartMonitor.handle_pong(message)` (ipyparallel 9.2) takes
    answers to the last two beats only. With beats ten times a second, an engine that is more than 200 ms away
    would never be registered, and one at 100 ms would fill the log. Without that method nothing is changed, and
    late answers are dropped.

    Args:
      monitor: The class; None if there is none.

    Returns:
      Whether the controller takes late answers now.
    """
    if not hasattr(monitor, "handle_pong"):
        return False

    def handle_pong(self: Any, message: list[bytes]) -> None:
        self.responses.add(message[0])

    monitor.handle_pong = handle_pong
    return True


SLOW_MS = 2000
"""Milliseconds between two heartbeats of a controller with which no engine has registered for a while."""

REGISTERING_SECONDS = 30.0
"""How long an engine may take to answer its first heartbeat after it has asked to be registered."""


def beat_as_needed(monitor: Any, hub: Any) -> bool:
    """Make the controller send heartbeats fast only while engines register, and slowly otherwise.

    An engine is registered with the second heartbeat after it has asked, so these are fast. Each wakes four
    threads of each engine; nobody needs them afterwards, since the end of an engine is seen by its parent.

    Private API: `HeartMonitor.start`, `beat`, `caller` and `loop` of `ipyparallel.controller.heartmonitor`, whose
    object lives in a child that ipyparallel forks, and `Hub.register_engine` of `ipyparallel.controller.hub` in
    the parent (ipyparallel 9.2). Without one of these the heartbeats stay fast.

    Args:
      monitor: The class of the monitor; None if there is none.
      hub: The class of the hub; None if there is none.

    Returns:
      Whether the rate follows the need now.
    """
    if not all(hasattr(monitor, name) for name in ("start", "beat", "loop")):
        return False
    if not hasattr(hub, "register_engine"):
        return False
    start, beat, register = monitor.start, monitor.beat, hub.register_engine
    asked, asking = os.pipe()
    os.set_blocking(asked, False)
    os.set_blocking(asking, False)
    fast_until = 0.0

    def hurry(self: Any, *_: Any) -> None:
        nonlocal fast_until
        with suppress(BlockingIOError):
            os.read(asked, 4096)
        fast_until = time.monotonic() + REGISTERING_SECONDS
        # Beginning the period anew with each of many engines would put off the beat that they all wait for.
        if self.caller.callback_time != self.period:
            self.caller.stop()
            self.caller.callback_time = self.period
            self.caller.start()

    def start_fast(self: Any) -> None:
        start(self)
        hurry(self)
        self.loop.add_handler(asked, partial(hurry, self), self.loop.READ)

    def beat_and_rest(self: Any) -> None:
        beat(self)
        if time.monotonic() > fast_until:
            self.caller.callback_time = max(SLOW_MS, self.period)

    def register_and_hurry(self: Any, *arguments: Any) -> Any:
        with suppress(BlockingIOError):
            os.write(asking, b".")
        return register(self, *arguments)

    monitor.start, monitor.beat, hub.register_engine = start_fast, beat_and_rest, register_and_hurry
    return True


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
    import asyncio

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


MOST_HEARTBEATS_MISSED = 1440
"""Most heartbeats of the hub that an engine misses before it gives up.

An engine looks for a heartbeat every 2.5 s (`SLOW_MS` and half a second) or less often: for an hour or more a
controller may be stopped, starved or out of reach. When a controller ends, its engines end with it at once,
through their parents."""


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

        ipykernel would redirect the descriptors into a pipe that this same process reads, so the last output of a
        process that aborts would be lost. Here they go to the process's log, which `Descriptors` follows.
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

        def start_heartbeat(self, ping: str, pong: str, period: int, identity: bytes) -> Any:
            return super().start_heartbeat(ping, pong, max(period, SLOW_MS), identity)

        def init_signal(self) -> None:
            super().init_signal()
            # SIGTERM is blocked while the child still has this process's handler, which would drop the signal.
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
