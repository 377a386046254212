"""A new controller in place of one that has ended: the engines go on, and connect to it by themselves."""

from __future__ import annotations

import time
from collections.abc import Collection

from nbdist.contract.calls.engine import Complete
from nbdist.contract.orders import CONTROLLER, RestartController
from nbdist.errors import LaunchError
from nbdist.launch.model.progress import POLL_SECONDS
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.request import Repeated

START_SECONDS = 30.0
"""Seconds a controller may take until it answers; forked on a quiet machine, it takes half a second."""

ANSWER_SECONDS = 1
"""Seconds that each first request to it waits."""

AGAIN_SECONDS = 0.5
"""Seconds until an engine is asked again: a request sent before it has connected anew is lost."""


def restart_controller(running: Cluster) -> None:
    """Start the controller again, unless another kernel has, and connect this kernel to it.

    Raises:
      LaunchError: The controller did not come up; the text says why. The engines go on.
    """
    home = running.own_agents.home
    before = home.exits.get(CONTROLLER)
    home.order(RestartController())
    deadline = time.monotonic() + START_SECONDS
    # The new controller may already have ended, too.
    while before is not None and home.exits.get(CONTROLLER) == before:
        if home.poll() is not None or time.monotonic() > deadline:
            raise LaunchError("its agent does not start it again")
        time.sleep(POLL_SECONDS)
    client = _connected(running, deadline)
    if running.client is not None:
        # Messages that the earlier client has not sent must not be sent now.
        running.client.close(linger=0)
    running.client = client


def _connected(running: Cluster, deadline: float) -> Client:
    home = running.own_agents.home
    while True:
        end = home.exits.get(CONTROLLER) or home.end_of_all()
        if end is not None:
            said = "".join(f": {line}" for line in end.last_lines[-1:])
            raise LaunchError(f"started again, it {end}{said}")
        try:
            return Client(running.client_file, cluster=running.cluster, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"started again, it did not answer within {START_SECONDS:g} s"
                ) from error


def unanswered(running: Cluster, process_ids: Collection[int], *, within_s: float) -> set[int]:
    """Return the idle processes that do not answer through the controller, without those that have ended.

    Args:
      running: The engines.
      process_ids: The idle processes.
      within_s: How many seconds they may take.
    """
    deadline = time.monotonic() + within_s
    nothing = Complete(code="", cursor=0)
    left = {
        p: Repeated(running.client, running.engines[p], nothing, again_s=AGAIN_SECONDS)
        for p in process_ids
    }
    while left and time.monotonic() < deadline:
        left = {
            p: asked
            for p, asked in left.items()
            if asked.answer(within_s=POLL_SECONDS) is None and p not in running.exits
        }
    return set(left)
