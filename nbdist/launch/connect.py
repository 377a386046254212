"""From started engines to known ones: each has registered, said its process id, and speaks our version."""

from __future__ import annotations

import re
import time
from collections.abc import Collection

from nbdist.engine.calls import PROTOCOL
from nbdist.engine.host import CONTROLLER
from nbdist.errors import LaunchError, VersionError
from nbdist.launch.calling import ask
from nbdist.launch.hostprocess import Exit
from nbdist.launch.running import POLL_SECONDS, Running, Tell
from nbdist.quantities import processes_text
from nbdist.version import __version__


def connect(
    running: Running,
    process_ids: Collection[int],
    *,
    known: Collection[int] = (),
    tell: Tell,
) -> None:
    """Waits until these processes have registered and answered the first message.

    Args:
      running: The engines.
      process_ids: Those that have just been started.
      known: ipyparallel's ids of engines that were there before, dead ones included: the hub may list those
        for a while.
      tell: Hears how many have come.

    Raises:
      LaunchError: One ended, could not import its framework, or did not come up in time.
      VersionError: One has another version of nbdist.
    """
    deadline = time.monotonic() + running.plan.start_timeout_s
    total, connected = len(process_ids), -1
    running.connected = 0
    while connected < total:
        check(running, process_ids, deadline)
        found = len(set(running.client.ids) - set(known))
        if found != connected:
            connected = running.connected = found
            tell("connected", connected, total)
        else:
            time.sleep(POLL_SECONDS)
    _greet(running, set(running.client.ids) - set(known), process_ids, deadline)
    tell("ready", total, total)


def check(running: Running, process_ids: Collection[int], deadline: float) -> None:
    """Raises when the start of these processes can no longer succeed.

    Raises:
      LaunchError: Says which, why, and what to type.
    """
    host, plan = running.host, running.plan
    if host.failure is not None:
        raise LaunchError(
            f"{processes_text(plan.hosts)} (host {plan.processes[0].host}) cannot import "
            f"{host.failure['module']}: {host.failure['error']}\n"
            f"{install_text(host.failure['module'], host.failure['error'])}, or check --env PYTHONPATH.\n"
            f"{host.failure['trace'].rstrip()}"
        )
    ended = [end for p, end in host.exits.items() if p in process_ids or p == CONTROLLER]
    if ended:
        raise LaunchError(_ended(running, ended[0]))
    if host.poll() is not None:
        lines = "\n".join(host.last_lines(CONTROLLER))
        raise LaunchError(f"The engines' parent process ended (exit code {host.poll()}).\n{lines}")
    if time.monotonic() > deadline:
        missing = len(process_ids) - running.connected
        raise LaunchError(
            f"{missing} of {len(process_ids)} processes did not connect within "
            f"{plan.start_timeout_s:g} s on {plan.processes[0].host}. "
            "Give them longer with --start-timeout."
        )


def install_text(module: str, error: str = "") -> str:
    """What to type when the processes cannot import `module`, or what `error` says it lacks."""
    missing = re.search(r"No module named '(\w+)", error)
    lacking = missing[1] if missing else module
    what = f"'nbdist[{lacking}]'" if lacking in ("keras", "tensorflow") else lacking
    return f"In the environment of this notebook's kernel run: pip install {what}"


def _ended(running: Running, end: Exit) -> str:
    who = "The controller" if end.process_id == CONTROLLER else f"Process {end.process_id}"
    host = running.plan.hosts.get(end.process_id, running.plan.processes[0].host)
    lines = "\n".join(f"  {line}" for line in end.last_lines)
    return f"{who} (host {host}, pid {end.pid}) {end} while it started.\n{lines}".rstrip()


def _greet(
    running: Running, engines: Collection[int], process_ids: Collection[int], deadline: float
) -> None:
    """The first message: who is who, and the versions compared."""
    asked = {engine: ask(running.client[engine], "hello", process_id=None) for engine in engines}
    for engine, answer in asked.items():
        while not answer.ready():
            check(running, process_ids, deadline)
            answer.wait(POLL_SECONDS)
        facts, _ = answer.get()
        process_id, host = facts["process_id"], facts["host"]
        if (facts["nbdist"], facts["protocol"]) != (__version__, PROTOCOL):
            raise VersionError(
                f"Process {process_id} (host {host}) has nbdist {facts['nbdist']}, this kernel has "
                f"{__version__}. On {host} run: pip install nbdist=={__version__}"
            )
        running.engines[process_id] = engine
        running.idents[process_id] = facts["ident"].encode()
        running.pids[process_id] = facts["pid"]
