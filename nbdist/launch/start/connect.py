"""Connected engines: each has registered, sent its process id, and shown that it has this version.

`start` leads from agents to such engines, step by step. The agents fork controller and engines, so ipyparallel's
own launchers are not used. `replace_processes` and `restart_controller` start ended processes, or the controller,
again, while the other processes go on; engines connect to a new controller by themselves.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import signal
import threading
import time
from collections.abc import Collection, Mapping, Set
from typing import Any

import zmq
from zmq.auth import CURVE_ALLOW_ANY
from zmq.auth.thread import ThreadAuthenticator

from nbdist.contract.calls.engine import Complete, Greet, OtherNbdist
from nbdist.contract.events import ImportFailed
from nbdist.contract.orders import CONTROLLER, Collect, RestartController
from nbdist.errors import LaunchError
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.launchers import other_version
from nbdist.launch.model.framework import framework_named, framework_names
from nbdist.launch.model.happenings import (
    POLL_SECONDS,
    ProcessExit,
    StartProgress,
    with_words,
)
from nbdist.launch.start import initialize
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.hosts import check_home, check_hosts, gather
from nbdist.launch.start.pending import Repeated
from nbdist.launch.start.spawn import CLUSTER_ID
from nbdist.machine.folder import connections, read_whole
from nbdist.message_guard import MessageGuard
from nbdist.notation import processes_text
from nbdist.spelling import command, option
from nbdist.version import __version__

logger = logging.getLogger(__name__)

CONTROLLER_SECONDS = 5
"""Seconds that each request to the controller waits; between two requests, `check` looks whether the start can
succeed."""


def start(cluster: Cluster, *, progress: StartProgress) -> None:
    """Start the processes of the plan and wait until every engine has answered.

    Args:
      cluster: The agents, which may still be importing; afterwards it has the engines and the client.
      progress: Called with the progress of the start.

    Raises:
      LaunchError: An engine ended, could not import its framework, or did not come up in time; everything is
        stopped again.
      HostError: As `LaunchError`, for a whole host.
      VersionError: An engine's nbdist is another version.
      KeyboardInterrupt: The user's; everything is stopped then, too.
    """
    try:
        gather(cluster, progress=progress)
        # The agent of this machine starts the controller by itself.
        cluster.client_file = str(connections(cluster.folder, CLUSTER_ID)[1])
        if initialize.needs_service(cluster):
            initialize.ask_for_service(cluster)
        cluster.agents.start(cluster.planned(cluster.plan.processes))
        with contextlib.ExitStack() as handovers:
            _open_client(cluster, progress, handovers)
            connect(cluster, cluster.plan.hosts, progress=progress)
    except BaseException:
        cluster.stop()
        raise


def _open_client(
    cluster: Cluster, progress: StartProgress, handovers: contextlib.ExitStack
) -> None:
    """Wait for the controller, connect to it, and send the other hosts its address.

    `handovers` gets the servers that must stay open until all processes are connected.
    """
    deadline = time.monotonic() + cluster.plan.start_timeout_s
    progress("starting", 0, len(cluster.plan.processes))
    engine, client = connections(cluster.folder, CLUSTER_ID)
    while (connection := read_whole(engine)) is None or read_whole(client) is None:
        check(cluster, cluster.plan.hosts, deadline=math.inf)
        if time.monotonic() > deadline:
            raise LaunchError(_no_controller(cluster, "was not ready"))
        time.sleep(POLL_SECONDS)
    cluster.own_agents.connect(connection)
    for agent in cluster.agents.others.values():
        if isinstance(agent, JobAgent):
            handover = handovers.enter_context(Handover(connection, agent.public_keys))
            agent.order(handover.order)
    cluster.client = _connected(cluster, deadline)


def _connected(cluster: Cluster, deadline: float, *, again: bool = False) -> Client:
    """Return ipyparallel's client; on a busy machine the controller may take longer to answer.

    Args:
      cluster: The agents, of which the one of this machine has started the controller.
      deadline: When to stop trying (monotonic clock).
      again: Whether the controller takes the place of an ended one.

    Raises:
      LaunchError: The controller ended, or did not answer in time.
    """
    each_s = ANSWER_SECONDS if again else CONTROLLER_SECONDS
    while True:
        if again:
            _check_new_controller(cluster)
        else:
            check(cluster, cluster.plan.hosts, deadline=math.inf)
        try:
            return Client(cluster.client_file, timeout=each_s)
        except TimeoutError as error:
            if time.monotonic() > deadline:
                late = f"started again, it did not answer within {START_SECONDS:g} s"
                text = late if again else _no_controller(cluster, "did not answer")
                raise LaunchError(text) from error


def _no_controller(cluster: Cluster, what: str) -> str:
    """Return the text about a controller that runs but does not work; it is on this machine."""
    home = cluster.own_agents.home
    text = (
        f"The controller (host {home.reach.name}) {what} within {cluster.plan.start_timeout_s:g} s. Give it "
        f"longer with {option('start_timeout_s')}."
    )
    return with_words(text, home.controller_log_tail())


GREET_SECONDS = 3.0
"""Seconds after which an engine that has not answered the first message is asked once more.

The hub knows an engine by its heartbeat, which may come before the scheduler of requests has a connection to the
engine."""


def connect(
    cluster: Cluster,
    process_ids: Collection[int],
    *,
    known: Collection[int] = (),
    progress: StartProgress,
) -> None:
    """Wait until these processes have registered and answered the first message.

    Args:
      cluster: The engines.
      process_ids: The processes that have just been started.
      known: ipyparallel's ids of earlier engines, dead ones included, since the hub may list those for a while.
      progress: Called with how many have connected.

    Raises:
      LaunchError: One ended, could not import its framework, or did not come up in time.
      VersionError: One has another version of nbdist.
    """
    deadline = time.monotonic() + cluster.plan.start_timeout_s
    total, connected = len(process_ids), -1
    cluster.connected = 0
    while connected < total:
        check(cluster, process_ids, deadline)
        found = len(set(cluster.client.ids) - set(known))
        if found != connected:
            connected = cluster.connected = found
            progress("connected", connected, total)
        else:
            time.sleep(POLL_SECONDS)
    _greet(cluster, set(cluster.client.ids) - set(known), process_ids, deadline)
    cluster.own_agents.stop_listening()
    progress("ready", total, total)


def check(cluster: Cluster, process_ids: Collection[int], deadline: float) -> None:
    """Raise an error if the start of these processes can no longer succeed.

    Raises:
      LaunchError: The text says which process, why, and what to type.
    """
    plan, agents = cluster.plan, cluster.own_agents
    for agent in agents.all:
        failure = agent.failure
        if failure is not None and isinstance(failure.event, ImportFailed):
            raise LaunchError(_cannot_import(cluster, agent, failure.event, failure.task))
    exits = [end for p, end in agents.exits.items() if p in process_ids]
    ended = [end for end in exits if end.because_of is None]
    controller = agents.home.exits.get(CONTROLLER)
    if ended or controller:
        raise LaunchError(_ended(cluster, controller or ended[0]))
    check_hosts(cluster)
    check_home(agents.home)
    if exits:
        # A process on one of several hosts of a job; the end of a whole agent is reported above.
        raise LaunchError(_ended(cluster, exits[0]))
    if time.monotonic() > deadline:
        missing = len(process_ids) - cluster.connected
        hosts = ", ".join(sorted(set(plan.hosts.values())))
        who = f"{missing} of {len(process_ids)} processes did not connect"
        if not missing:
            who = f"All {len(process_ids)} processes connected, but not all answered the first message"
        raise LaunchError(
            f"{who} within {plan.start_timeout_s:g} s (host {hosts}). Give them longer with "
            f"{option('start_timeout_s')}.{_unreached(cluster)}"
        )


def _unreached(cluster: Cluster) -> str:
    """Return a further possible cause, if other machines must reach the controller."""
    if not cluster.agents.others or cluster.plan.placement.tunnel:
        return ""
    address = cluster.connection["interface"].rpartition("/")[2]
    return (
        f" If that does not help, the hosts may not reach this machine at {address}: look with "
        f"{command('doctor')}, name another address with {option('controller_address')}, or go through ssh with "
        f"{option('tunnel', True)}."
    )


def _cannot_import(
    cluster: Cluster, agent: AgentHandle, failure: ImportFailed, task: int | None
) -> str:
    plan = cluster.plan
    ids = [p for p in plan.hosts if cluster.agents.of(p) is agent and (task is None or p == task)]
    host = plan.hosts[ids[0]]
    there = f" of host {host}" if agent.reach.remote else " of this notebook's kernel"
    return (
        f"{processes_text(ids)} (host {host}) cannot import {failure.module}: "
        f"{failure.error}\n{install_text(failure.module, failure.error, where=there)}, or check "
        f"PYTHONPATH in {option('environment')}.\n{failure.trace.rstrip()}"
    )


def install_text(module: str, error: str = "", *, where: str = " of this notebook's kernel") -> str:
    """Return what to type when the processes cannot import `module`, or the module that `error` names."""
    missing = re.search(r"No module named '(\w+)", error)
    lacking = missing[1] if missing else module
    known = lacking in framework_names()
    what = framework_named(lacking).requirement if known else lacking
    return f"In the environment{where} run: pip install {what}"


def _ended(cluster: Cluster, end: ProcessExit) -> str:
    who = "The controller" if end.process_id == CONTROLLER else f"Process {end.process_id}"
    host = cluster.plan.hosts.get(end.process_id, cluster.own_agents.home.reach.name)
    pid = f", pid {end.pid}" if end.because_of is None else ""
    return with_words(f"{who} (host {host}{pid}) {end} while it started.", end.last_lines)


def _greet(
    cluster: Cluster, engines: Collection[int], process_ids: Collection[int], deadline: float
) -> None:
    """Send the first message, which tells who is who, and compare versions."""
    hello = Greet(process_id=None, framework=cluster.plan.framework)
    asked = {
        engine: Repeated(cluster.client, engine, hello, again_s=GREET_SECONDS) for engine in engines
    }
    for engine, greeted in asked.items():
        while (answer := greeted.answer(within_s=POLL_SECONDS)) is None:
            check(cluster, process_ids, deadline)
        facts, _ = answer.get()
        if isinstance(facts, OtherNbdist) or facts.nbdist != __version__:
            who = f"Process {facts.process_id} (host {facts.host})"
            raise other_version(who, facts.nbdist, on=facts.host)
        cluster.engines[facts.process_id] = engine
        cluster.idents[facts.process_id] = facts.ident.encode()
        cluster.pids[facts.process_id] = facts.pid


POLL_MS = int(POLL_SECONDS * 1000)


class Handover:
    """Transfer of the connection file for engines to the tasks of a job, outside the job's own stream.

    The file is encrypted with CURVE, and goes only to clients with a key that a task has sent through the job's
    stream. A thread serves it while the context is open; the other end is `nbdist.agent.kernel_link.Collecting`.

    Args:
      connection: ipyparallel's connection file for engines; the server listens at the address that it names.
      admitted: The public keys of the tasks known so far, in Z85; more may be added later.
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


END_SECONDS = 5.0
"""Seconds a process may take to be gone after SIGKILL."""


def end_processes(cluster: Cluster, process_ids: Collection[int]) -> None:
    """End processes that no longer answer; wait until they are gone.

    Raises:
      LaunchError: A process still exists.
    """
    cluster.agents.signal(signal.SIGKILL, sorted(process_ids))
    deadline = time.monotonic() + END_SECONDS
    while left := set(process_ids) - set(cluster.exits):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{processes_text(left)} cannot be ended. {command('restart')} stops all."
            )
        time.sleep(POLL_SECONDS)


def replace_processes(
    cluster: Cluster, process_ids: Collection[int], *, progress: StartProgress
) -> None:
    """Start these processes of the plan again, each on its host and with its id.

    Raises:
      LaunchError: One of them did not come up; all other processes are unchanged.
    """
    again = [p for p in cluster.plan.processes if p.process_id in process_ids]
    known = {*cluster.engines.values(), *cluster.client.ids}
    cluster.forget(process_ids)
    cluster.agents.start(cluster.planned(again))
    connect(cluster, process_ids, known=known, progress=progress)


START_SECONDS = 30.0
"""Seconds a new controller may take to answer; on a quiet machine it takes half a second."""

ANSWER_SECONDS = 1
"""Seconds that each attempt to connect to a new controller waits for its answer."""

AGAIN_SECONDS = 0.5
"""Seconds until an engine is asked again, since a request sent before the engine has reconnected is lost."""


def restart_controller(cluster: Cluster) -> None:
    """Start the controller again, unless another kernel has, and connect this kernel to it.

    Raises:
      LaunchError: The controller did not come up; the text says why. The engines go on.
    """
    home = cluster.own_agents.home
    before = home.exits.get(CONTROLLER)
    home.order(RestartController())
    deadline = time.monotonic() + START_SECONDS
    # The new controller may have ended already: then its end differs from the first one's.
    while before is not None and home.exits.get(CONTROLLER) == before:
        if home.poll() is not None or time.monotonic() > deadline:
            raise LaunchError("its agent does not start it again")
        time.sleep(POLL_SECONDS)
    client = _connected(cluster, deadline, again=True)
    if cluster.client is not None:
        # What the earlier client has not sent must not be sent later.
        cluster.client.close(linger=0)
    cluster.client = client


def _check_new_controller(cluster: Cluster) -> None:
    home = cluster.own_agents.home
    end = home.exits.get(CONTROLLER) or home.end_of_all()
    if end is not None:
        last = "".join(f": {line}" for line in end.last_lines[-1:])
        raise LaunchError(f"started again, it {end}{last}")


def unanswered(cluster: Cluster, process_ids: Collection[int], *, within_s: float) -> set[int]:
    """Return the idle processes that do not answer through the controller, except ended ones.

    Args:
      cluster: The engines.
      process_ids: The idle processes.
      within_s: How many seconds they may take.
    """
    deadline = time.monotonic() + within_s
    nothing = Complete(code="", cursor=0)
    left = {
        p: Repeated(cluster.client, cluster.engines[p], nothing, again_s=AGAIN_SECONDS)
        for p in process_ids
    }
    while left and time.monotonic() < deadline:
        left = {
            p: asked
            for p, asked in left.items()
            if asked.answer(within_s=POLL_SECONDS) is None and p not in cluster.exits
        }
    return set(left)
