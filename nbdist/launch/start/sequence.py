"""Sequence of a start, from a plan to connected engines: each knows its id and has the kernel's version.

`start` calls the steps in order. ipyparallel's own launchers are replaced, since the agents fork controller and
engines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ipyparallel
import zmq
from ipyparallel.cluster.launcher import ControllerLauncher, EngineLauncher
from traitlets import Instance, List
from zmq.auth import CURVE_ALLOW_ANY
from zmq.auth.thread import ThreadAuthenticator

from nbdist.contract.orders import Collect
from nbdist.errors import LaunchError
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.model.happenings import POLL_SECONDS, StartProgress
from nbdist.launch.start import initialize
from nbdist.launch.start.agents import AgentPool
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import check, connect
from nbdist.launch.start.hosts import gather, info_by_host
from nbdist.launch.start.spawn import CLUSTER_ID, Spawned
from nbdist.machine.folder import engine_connection, read_whole
from nbdist.message_guard import MessageGuard
from nbdist.spelling import option

logger = logging.getLogger(__name__)


class AgentController(ControllerLauncher):
    """Launcher of the controller, a fork of this machine's preloaded agent.

    It takes the place of ipyparallel's own in an `ipyparallel.Cluster`, as `AgentEngines` does. Both hold the same
    `AgentPool`, since the controller is a child of an agent as well.
    """

    agents: AgentPool = Instance(AgentPool)

    def find_args(self) -> list[str]:
        """Return the words for ipyparallel's log."""
        return ["nbdist.agent"]

    async def start(self) -> None:
        """Report the start: the agent starts the controller by itself, first of all."""
        self.notify_start({"pid": "child of this machine's agent"})

    def poll(self) -> int | None:
        """Return the exit status of this machine's agent; None while it runs."""
        return self.agents.home.poll()

    def signal(self, sig: int) -> None:
        """Do nothing: the controller is stopped with its agent, and never signalled alone."""

    async def join(self, timeout: float | None = None) -> None:
        """Stop the agents, and return when all have ended."""
        await asyncio.to_thread(self.agents.stop)

    async def stop(self) -> None:
        """Stop the agents and with them all engines."""
        await asyncio.to_thread(self.agents.stop)
        self.notify_stop({"exit_code": 0})


class AgentEngines(EngineLauncher):
    """Launcher of all engines, each forked by the preloaded agent of its host, on this machine or another."""

    agents: AgentPool = Instance(AgentPool)
    processes = List()

    def find_args(self) -> list[str]:
        """Return the words for ipyparallel's log."""
        return ["nbdist.agent"]

    async def start(self, n: int) -> None:
        """Order the agents to start the planned processes; `n` is their number."""
        self.n = n
        self.agents.start(self.processes)
        self.notify_start({"n": n})

    def signal(self, sig: int) -> None:
        """Signal all engines."""
        self.agents.signal(sig, [process["process_id"] for process in self.processes])

    async def join(self, timeout: float | None = None) -> None:
        """Do nothing: engines end with their agents."""

    async def stop(self) -> None:
        """Stop the engines together with their agents."""
        await asyncio.to_thread(self.agents.stop)
        self.notify_stop({"exit_code": 0})


POLL_MS = int(POLL_SECONDS * 1000)


class Handover:
    """Transfer of the connection file for engines to the tasks of a job, outside of the stream that leads to them.

    The file is encrypted with CURVE, and goes only to clients with a key that a task has sent through the job's
    stream. It is served on a thread of its own, from entering until leaving; the other end is
    `nbdist.agent.kernel_link.Collecting`.

    Args:
      connection: ipyparallel's connection file for engines; the server listens at the address that it names.
      admitted: The public keys of the tasks, in Z85, as far as they are known; more may be added meanwhile.
    """

    def __init__(self, connection: Mapping[str, Any], admitted: Set[str]) -> None:
        self._content = json.dumps(dict(connection)).encode()
        self._interface = str(connection["interface"])
        self._admitted = admitted
        self._stopped = threading.Event()
        self._guard = MessageGuard("A task that asks for the connection file", logger)
        self._thread = threading.Thread(target=self._serve, name="nbdist-handover", daemon=True)

    def __enter__(self) -> Handover:
        public, secret = zmq.curve_keypair()
        # A context of its own, since an authenticator serves a whole context.
        self._context = zmq.Context()
        self._keys = ThreadAuthenticator(self._context)
        self._keys.start()
        # Any client may connect; what it gets depends on its key, which may become known here a moment later.
        self._keys.configure_curve(domain="*", location=CURVE_ALLOW_ANY)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.curve_server = True
        self._socket.curve_publickey, self._socket.curve_secretkey = public, secret
        port = self._socket.bind_to_random_port(self._interface)
        self.order = Collect(address=f"{self._interface}:{port}", server_key=public.decode())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._keys.stop()
        self._context.destroy(linger=0)

    def _serve(self) -> None:
        waiting: dict[bytes, str] = {}
        while not self._stopped.is_set():
            with self._guard:
                if self._socket.poll(POLL_MS):
                    peer, asked = self._socket.recv_multipart(copy=False)
                    # The key that the client has proven to own; see `Authenticator.curve_user_id`.
                    waiting[peer.bytes] = str(asked.get("User-Id"))
                for known in [peer for peer, key in waiting.items() if key in self._admitted]:
                    del waiting[known]
                    self._socket.send_multipart([known, self._content])


ANSWER_SECONDS = 5
"""Seconds that each request to the controller waits; between two, it is checked that the start can succeed."""


def start(spawned: Spawned, *, progress: StartProgress) -> Cluster:
    """Start the processes of the plan and wait until every engine has answered.

    Args:
      spawned: The agents, which may still be importing.
      progress: Called with the progress of the start.

    Raises:
      LaunchError: An engine ended, could not import its framework, or did not come up in time; everything
        that had been started is stopped again.
      HostError: As `LaunchError`, for a whole host.
      VersionError: An engine's nbdist is another version.
      KeyboardInterrupt: As raised by the user; also then everything is stopped.
    """
    try:
        gather(spawned, progress=progress)
        running = _engines(spawned)
        with contextlib.ExitStack() as handovers:
            _open_client(running, progress, handovers)
            connect(running, spawned.plan.hosts, progress=progress)
    except BaseException:
        spawned.stop()
        raise
    return running


def _engines(spawned: Spawned) -> Cluster:
    """Start the controller and all engines."""
    plan, agents = spawned.plan, spawned.agents
    assert spawned.rendezvous is not None
    cluster = ipyparallel.Cluster(
        controller=AgentController,
        engines=AgentEngines,
        profile_dir=spawned.folder,
        cluster_id=CLUSTER_ID,
        cluster_file="",
        load_profile=False,
        send_engines_connection_env=False,
        shutdown_atexit=False,
        parent=None,
        log_level=40,
    )
    running = Cluster(
        plan=plan,
        folder=spawned.folder,
        agents=agents,
        cluster=cluster,
        rendezvous=spawned.rendezvous,
        info=info_by_host(spawned),
        warnings=spawned.warnings,
    )
    _run(cluster.start_controller, agents=agents)
    processes = running.planned(plan.processes)
    if initialize.wanted(running):
        initialize.ask_for_service(running)
    _run(cluster.start_engines, n=len(processes), agents=agents, processes=processes)
    return running


def _run(work: Callable[..., Coroutine[Any, Any, object]], **options: Any) -> None:
    """Run a coroutine of ipyparallel's to its end, on a thread of its own.

    In a notebook, where a loop runs, `start_…_sync` would leave a thread and three descriptors for each start.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="nbdist-start") as thread:
        thread.submit(lambda: asyncio.run(work(**options))).result()


def _open_client(
    running: Cluster, progress: StartProgress, handovers: contextlib.ExitStack
) -> None:
    """Wait for the controller, connect to it, and send the other hosts its address.

    `handovers` gets the servers that must be open until all processes are connected.
    """
    deadline = time.monotonic() + running.plan.start_timeout_s
    progress("starting", 0, len(running.plan.processes))
    running.client_file = running.cluster.controller.connection_files["client"]
    client = Path(running.client_file)
    engine = engine_connection(running.folder, CLUSTER_ID)
    while (connection := read_whole(engine)) is None or read_whole(client) is None:
        check(running, running.plan.hosts, deadline=math.inf)
        if time.monotonic() > deadline:
            raise LaunchError(_no_controller(running, "was not ready"))
        time.sleep(POLL_SECONDS)
    running.own_agents.connect(connection)
    for agent in running.agents.others.values():
        if isinstance(agent, JobAgent):
            handover = handovers.enter_context(Handover(connection, agent.public_keys))
            agent.order(handover.order)
    running.client = _connected(running, client, deadline)


def _connected(running: Cluster, connection_file: Path, deadline: float) -> Client:
    """Return ipyparallel's client; wait for a controller on a busy machine, and raise if it has ended.

    Raises:
      LaunchError: The controller ended, or did not answer in time.
    """
    while True:
        check(running, running.plan.hosts, deadline=math.inf)
        try:
            return Client(str(connection_file), cluster=running.cluster, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            if time.monotonic() > deadline:
                raise LaunchError(_no_controller(running, "did not answer")) from error


def _no_controller(running: Cluster, what: str) -> str:
    """Return the text about a controller that runs but does not work; it is on this machine."""
    home = running.own_agents.home
    words = "\n".join(f"  {line}" for line in home.controller_words())
    return (
        f"The controller (host {home.reach.name}) {what} within {running.plan.start_timeout_s:g} s. Give it "
        f"longer with {option('start_timeout_s')}.\n{words}"
    ).rstrip()
