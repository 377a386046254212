"""Queries of the identity of engines that somebody else has started, and errors if they cannot answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ipyparallel

from nbdist.contract.calls.engine import Described, OtherNbdist, Who
from nbdist.errors import NbdistError, SessionError, VersionError
from nbdist.launch.model.no_nbdist import install_nbdist, lacks_nbdist
from nbdist.launch.sessions.resolve import ForeignCluster
from nbdist.launch.start.client import Client
from nbdist.launch.start.request import Request, ask
from nbdist.version import __version__

CONNECT_SECONDS = 10
ANSWER_SECONDS = 10.0
"""Seconds an engine may take to describe itself, before it counts as busy."""

Descriptions = Mapping[int, Described]
"""Descriptions of engines, by engine id or by process id."""


def client_of(cluster: ForeignCluster) -> Any:
    """Return ipyparallel's client of a cluster.

    Raises:
      SessionError: Its controller does not answer.
    """
    try:
        return Client(dict(cluster.connection), timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError, KeyError) as error:
        raise SessionError(
            f"The controller of {cluster.name} does not answer at {cluster.connection['interface']} ({error}). It "
            "has ended, or cannot be reached from this machine."
        ) from error


def who(cluster: ForeignCluster, client: Any, framework: str) -> Descriptions:
    """Return each engine's description of itself, by engine id.

    Raises:
      SessionError: There are no engines, or one is busy.
      VersionError: One has no nbdist, or another version.
    """
    engines = sorted(client.ids)
    if not engines:
        raise SessionError(
            f"No engine is connected to the controller of {cluster.name}. Start some, then attach again."
        )
    address = address_of(cluster.connection)
    asked = {
        engine: ask(
            client,
            engine,
            Who(framework=framework, controller=address),
            where=f"engine {engine}",
        )
        for engine in engines
    }
    deadline = time.monotonic() + ANSWER_SECONDS
    found = {}
    for engine, request in asked.items():
        request.wait(max(0.0, deadline - time.monotonic()))
        if not request.ready():
            raise SessionError(
                f"Engine {engine} of {cluster.name} has not answered for {ANSWER_SECONDS:g} s: it is busy. "
                "Attach again when it is idle, or interrupt what it runs where that was started."
            )
        found[engine] = _checked(client, engine, request)
    return found


def _checked(client: Any, engine: int, request: Request[Described | OtherNbdist]) -> Described:
    try:
        facts, _ = request.get()
    except NbdistError as error:
        if "does not know the call" in str(error):
            version = _on(client, engine, "__import__('nbdist').__version__")
            raise _other_version(engine, _on(client, engine, HOST), version) from error
        if lacks_nbdist([str(error)]):
            host, python = _on(client, engine, HOST), _on(client, engine, PYTHON)
            who = f"Engine {engine} (host {host})"
            text = install_nbdist(who, python, host=host, otherwise="then start the engines again")
            raise VersionError(text) from error
        raise
    if isinstance(facts, OtherNbdist) or facts.nbdist != __version__:
        raise _other_version(engine, facts.host, facts.nbdist)
    return facts


HOST = "__import__('socket').gethostname()"
PYTHON = "__import__('sys').executable"


def _on(client: Any, engine: int, expression: str) -> str:
    """Return the value of an expression on an engine that may have no nbdist."""
    try:
        return str(client[engine].apply_async(str, ipyparallel.Reference(expression)).get(5))
    except Exception:  # noqa: BLE001 - only the words of an error are at stake
        return "unknown"


def _other_version(engine: int, host: str, version: str) -> VersionError:
    return VersionError(
        f"Engine {engine} (host {host}) has nbdist {version}, this kernel has {__version__}. On {host} run: pip "
        f"install nbdist=={__version__}; then start the engines again."
    )


def address_of(connection: Mapping[str, Any]) -> str:
    """Return the controller's address, as the engines' hosts reach it."""
    address = str(connection["interface"]).rpartition("/")[2]
    wild = address in ("*", "0.0.0.0", "")
    return str(connection.get("location") or address) if wild else address
