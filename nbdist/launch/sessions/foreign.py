"""Sessions of engines that somebody else has started: identified, numbered, and joined to one cluster."""

from __future__ import annotations

import hashlib
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from nbdist.contract.calls.engine import Hello, Prepare
from nbdist.errors import LaunchError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.meet import meet
from nbdist.launch.model.plan import Plan, Platform
from nbdist.launch.model.progress import StartProgress
from nbdist.launch.model.rendezvous import Place, Rendezvous
from nbdist.launch.planning.choose import make_plan
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.asking import ANSWER_SECONDS, Descriptions, client_of, who
from nbdist.launch.sessions.attached_cluster import AttachedCluster
from nbdist.launch.sessions.foreign_engines import ForeignEngines
from nbdist.launch.sessions.numbering import number
from nbdist.launch.sessions.resolve import ForeignCluster
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import install_text
from nbdist.launch.start.initialize import join
from nbdist.launch.start.request import ask
from nbdist.machine import folder as folders
from nbdist.machine.ports import LOOPBACK
from nbdist.quantities import count_text
from nbdist.rules import Rules
from nbdist.spelling import command, option


def take_part(
    cluster: ForeignCluster,
    *,
    progress: StartProgress,
    platform: str | None = None,
    devices_per_process: int | None = None,
    **options: Any,
) -> AttachedCluster:
    """Return a session of a cluster's engines, which all go on when this kernel leaves.

    Args:
      cluster: How it is reached.
      progress: Called with how many have joined.
      platform: What they are to compute on; default: as they find it themselves.
      devices_per_process: Virtual CPU devices of each; default: as they are set up.
      **options: Of `nbdist.launch.planning.choose.make_plan`: the framework, and how it is initialized.

    Raises:
      SessionError: There are no engines, or they do not answer.
      VersionError: Some have no nbdist, or another version.
      LaunchError: Their framework cannot be initialized.
    """
    began = time.monotonic()
    client = client_of(cluster)
    folder = folders.make()
    try:
        info = who(cluster, client, options.get("framework", "jax"))
        ids, how = number(info)
        by_id = {process_id: info[engine] for engine, process_id in ids.items()}
        plan = _plan(by_id, platform, devices_per_process, options)
        _refuse(plan, by_id)
        rendezvous = _meet(plan, by_id)
        running = _running(cluster, client, plan, rendezvous, folder, ids, by_id)
    except BaseException:
        client.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        late = _prepare(running, by_id)
        known = framework_named(plan.framework).known(by_id)
        answers = known or join(running, progress=progress)
        computes = cast(Platform, next(iter(answers.values())).platform or plan.platform)
        running.plan = replace(plan, platform=computes, platform_chosen=platform is not None)
    except BaseException:
        running.leave()
        raise
    return AttachedCluster(
        session=_session(cluster.connection),
        link=running,
        asked=running.plan,
        answers=answers,
        ours=False,
        began=began,
        rules=Rules(),
        remarks=(
            f"{count_text(len(ids), 'engine')} of {cluster.name}, numbered {how}; this kernel has not started "
            f"them, and {command('shutdown')} only leaves them.",
            *late,
        ),
    )


def _session(connection: Mapping[str, Any]) -> str:
    """Return the session's id, which is the same in every kernel that takes part, and in the engines' reports."""
    names = ("interface", "registration", "key", "curve_serverkey")
    text = " ".join(str(connection.get(name)) for name in names)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _turn_file(connection: Mapping[str, Any]) -> Path:
    """Return the lock file in the user's state folder, the only folder that all kernels that take part share."""
    folder = registry.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{_session(connection)}.turn"


def _plan(
    by_id: Descriptions, platform: str | None, devices: int | None, options: Mapping[str, Any]
) -> Plan:
    """Return a plan that describes these engines; accelerators are as their starter has divided them."""
    plan = make_plan(processes=len(by_id), platform=platform or "cpu", **options)
    if platform is None:
        environment = {k: v for k, v in plan.environment.items() if k != "JAX_PLATFORMS"}
        plan = replace(plan, environment=environment)
    processes = tuple(
        replace(process, devices=devices, local_device_ids=None) for process in plan.processes
    )
    plan = replace(plan, processes=processes, platform_chosen=platform is not None)
    return plan.placed({p: facts.host for p, facts in by_id.items()})


def _refuse(plan: Plan, by_id: Descriptions) -> None:
    """Raise LaunchError if the framework cannot be initialized as it has to be."""
    framework = plan.framework
    for process_id, facts in by_id.items():
        host = facts.host
        if facts.version is None:
            raise LaunchError(
                f"Process {process_id} (host {host}) has no {framework}. "
                f"{install_text(framework, where=f' of the engines on {host}')}, and start them again."
            )
        joined = facts.joined
        if joined and (joined.count, joined.process_id) != (len(by_id), process_id):
            raise LaunchError(
                f"Process {process_id} (host {host}) is process {joined.process_id} of {joined.count} in "
                f"a JAX cluster already, but only {len(by_id)} engines are connected. Start all engines again, or "
                "attach when all of that cluster are connected."
            )
    alone = {p for p, facts in by_id.items() if facts.up and not facts.joined}
    if plan.initialize and alone and not framework_named(framework).known(by_id):
        process_id = min(alone)
        raise LaunchError(
            f"Process {process_id} (host {by_id[process_id].host}) has already started a JAX back end, and "
            f"can no longer join a cluster. Start the engines again, or use {option('initialize', False)} to "
            "leave each by itself."
        )


def _meet(plan: Plan, by_id: Descriptions) -> Rendezvous:
    here = all(facts.host == socket.gethostname() for facts in by_id.values())
    places = {
        p: Place(address=LOOPBACK if here else facts.address, port=facts.port)
        for p, facts in by_id.items()
    }
    return meet(plan, places)


def _running(
    cluster: ForeignCluster,
    client: Any,
    plan: Plan,
    rendezvous: Rendezvous,
    folder: str,
    ids: Mapping[int, int],
    by_id: Descriptions,
) -> Cluster:
    path = Path(folder) / "client.json"
    folders.write_private(path, dict(cluster.connection))
    engines = {process_id: engine for engine, process_id in ids.items()}
    return Cluster(
        plan=plan,
        folder=folder,
        agents=ForeignEngines(client, engines, folder=folder),
        cluster=None,
        rendezvous=rendezvous,
        client=client,
        engines=engines,
        idents={p: facts.ident.encode() for p, facts in by_id.items()},
        pids={p: facts.pid for p, facts in by_id.items()},
        client_file=str(path),
        turn_file=str(_turn_file(cluster.connection)),
    )


def _prepare(running: Cluster, by_id: Descriptions) -> list[str]:
    """Make the engines ready for cells, with the variables of our own processes; return remarks."""
    framework, plan = framework_named(running.plan.framework), running.plan
    late: set[str] = set()
    for process in plan.processes:
        p = process.process_id
        where = f"process {p} (host {by_id[p].host})"
        environment = {
            **plan.environment,
            **framework.environment(plan, process, running.rendezvous),
        }
        answer, _ = ask(
            running.client,
            running.engines[p],
            Prepare(environment=environment, framework=running.plan.framework),
            where=where,
        ).get(ANSWER_SECONDS)
        late |= set(answer.names) & set(plan.environment)
        hello = Hello(process_id=p, framework=running.plan.framework)
        ask(running.client, running.engines[p], hello, where=where).get(ANSWER_SECONDS)
    if not late:
        return []
    names = ", ".join(sorted(late))
    return [f"{names}: the engines have imported {plan.framework} before it could be set."]
