"""Sessions of engines that somebody else has started: found, identified, numbered, and joined to one cluster.

`resolve` finds what a person means by `--attach`, which may also be one of nbdist's sessions. `take_part` does the
other steps. Engines first describe themselves; if they cannot, or have another nbdist, the error says what to
type.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import ipyparallel

from nbdist.contract.calls.engine import Described, Greet, OtherNbdist, Prepare, Who
from nbdist.engine.kernel.calls import NUMBERS
from nbdist.errors import LaunchError, NbdistError, SessionError, VersionError
from nbdist.launch.launchers import install_nbdist, lacks_nbdist, other_version
from nbdist.launch.model.framework import Place, Rendezvous, framework_named, meet
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.model.plan import Plan, Platform
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import make_plan
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import install_text
from nbdist.launch.start.initialize import join
from nbdist.launch.start.pending import Pending, ask
from nbdist.launch.start.pool import ForeignEngines
from nbdist.machine import folder as folders
from nbdist.machine.ports import LOOPBACK
from nbdist.notation import count_text
from nbdist.spelling import Placeholder, command, option
from nbdist.version import __version__

NEEDED = ("interface", "key", "iopub", "signature_scheme", "registration")
"""Fields that must be in ipyparallel's connection info for clients."""


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A cluster that somebody else has started; `name` is the person's word for it."""

    name: str
    connection: Mapping[str, Any]


def resolve(word: str) -> Record | ForeignCluster:
    """Return the session or cluster that a person names after `--attach`.

    Args:
      word: `last`, an id of a session or its beginning, a connection file (`ipcontroller-client.json`), a cluster
        file (`cluster-….json`), or a profile of ipyparallel's.

    Raises:
      SessionError: There is no such session or cluster; the text lists the existing ones.
    """
    path = Path(word).expanduser()
    if path.is_file():
        return _of_file(word, path)
    if "/" in word or word.endswith(".json"):
        raise SessionError(
            f"{command('attach', word)}: there is no such file. ipyparallel writes ipcontroller-client.json into "
            "the folder `security` of the profile that was started."
        )
    if word != "last" and (profile := _profile_file(word)) is not None:
        return _of_file(word, profile)
    try:
        return registry.find(word)
    except SessionError as error:
        if word == "last":
            raise
        raise SessionError(
            f"{error} A profile of ipyparallel's of this name has no connection file either; a file can be named "
            f"as well: {command('attach', Placeholder('FILE'))}."
        ) from None


def _of_file(word: str, path: Path) -> Record | ForeignCluster:
    for record in registry.sessions():
        if Path(record.connection).resolve() == path.resolve():
            return record
    return ForeignCluster(word, read_connection(path))


def read_connection(path: Path) -> dict[str, Any]:
    """Return ipyparallel's connection info for clients, from its connection file or from a cluster file.

    Raises:
      SessionError: The file is neither, or cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SessionError(f"{path} is no connection file of ipyparallel's: {error}.") from error
    if isinstance(content, dict) and isinstance(content.get("cluster"), dict):
        return read_connection(_beside(path, content["cluster"]))
    if not isinstance(content, dict) or any(name not in content for name in NEEDED):
        engines = " It is that of the engines." if "-engine" in path.name else ""
        raise SessionError(
            f"{path} is no connection file of ipyparallel's for clients.{engines} Such a file is called "
            "ipcontroller-client.json, or cluster-….json."
        )
    return content


def _beside(path: Path, cluster: Mapping[str, Any]) -> Path:
    """Return the connection file of the cluster that a cluster file describes."""
    name = (
        f"ipcontroller-{cluster['cluster_id']}-" if cluster.get("cluster_id") else "ipcontroller-"
    )
    security = Path(cluster.get("profile_dir") or path.parent.parent) / "security"
    return security / f"{name}client.json"


def _profile_file(name: str) -> Path | None:
    """Return the connection file of a profile; None if it has none."""
    from IPython.paths import get_ipython_dir

    security = Path(get_ipython_dir()) / f"profile_{name}" / "security"
    path = security / "ipcontroller-client.json"
    return path if path.is_file() else None


CONNECT_SECONDS = 10
ANSWER_SECONDS = 10.0
"""Seconds an engine may take to describe itself, before it counts as busy."""

Descriptions = Mapping[int, Described]
"""Descriptions of engines, by engine id or by process id."""


def client_of(foreign: ForeignCluster) -> Any:
    """Return ipyparallel's client of a cluster.

    Raises:
      SessionError: Its controller does not answer.
    """
    try:
        return Client(dict(foreign.connection), timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError, KeyError) as error:
        raise SessionError(
            f"The controller of {foreign.name} does not answer at {foreign.connection['interface']} ({error}). It "
            "has ended, or cannot be reached from this machine."
        ) from error


def describe_engines(foreign: ForeignCluster, client: Any, framework: str) -> Descriptions:
    """Return each engine's description of itself, by engine id.

    Raises:
      SessionError: There are no engines, or one is busy.
      VersionError: One has no nbdist, or another version.
    """
    engines = sorted(client.ids)
    if not engines:
        raise SessionError(
            f"No engine is connected to the controller of {foreign.name}. Start some, then attach again."
        )
    address = address_of(foreign.connection)
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
                f"Engine {engine} of {foreign.name} has not answered for {ANSWER_SECONDS:g} s: it is busy. "
                "Attach again when it is idle, or interrupt what it runs where that was started."
            )
        found[engine] = _checked(client, engine, request)
    return found


def _checked(client: Any, engine: int, request: Pending[Described | OtherNbdist]) -> Described:
    try:
        facts, _ = request.get()
    except NbdistError as error:
        if lacks_nbdist([str(error)]):
            host, python = _evaluated(client, engine, HOST), _evaluated(client, engine, PYTHON)
            named = f"Engine {engine} (host {host})"
            text = install_nbdist(
                named, python, host=host, otherwise="then start the engines again"
            )
            raise VersionError(text) from error
        # Another version may not know the call, and then raises another error.
        version = _evaluated(client, engine, "__import__('nbdist').__version__")
        if version not in (__version__, UNKNOWN):
            raise _other_version(engine, _evaluated(client, engine, HOST), version) from error
        raise
    if isinstance(facts, OtherNbdist) or facts.nbdist != __version__:
        raise _other_version(engine, facts.host, facts.nbdist)
    return facts


UNKNOWN = "unknown"
HOST = "__import__('socket').gethostname()"
PYTHON = "__import__('sys').executable"


def _evaluated(client: Any, engine: int, expression: str) -> str:
    """Return the value of an expression on an engine, which need not have nbdist."""
    try:
        return str(client[engine].apply_async(str, ipyparallel.Reference(expression)).get(5))
    except Exception:  # noqa: BLE001 - only the words of an error are at stake
        return UNKNOWN


def _other_version(engine: int, host: str, version: str) -> VersionError:
    found = other_version(f"Engine {engine} (host {host})", version, on=host)
    return VersionError(f"{found}; then start the engines again.")


def address_of(connection: Mapping[str, Any]) -> str:
    """Return the controller's address, as the engines' hosts reach it."""
    address = str(connection["interface"]).rpartition("/")[2]
    wild = address in ("*", "0.0.0.0", "")
    return str(connection.get("location") or address) if wild else address


def number_engines(engines: Mapping[int, Described]) -> tuple[dict[int, int], str]:
    """Return process ids, dense from 0, by ipyparallel's engine id.

    ipyparallel's own ids follow the order of registration and mean nothing else. The process ids depend only on
    the engines' descriptions, and come from the first of these that applies: the ids that an earlier kernel gave
    the engines; JAX's cluster, if they are in one; a launcher's variable in their environments, if it numbers all
    of them; the order of hosts and engine ids.

    Args:
      engines: Each engine's description of itself, by its id.

    Returns:
      The ids, and their source in words.

    Raises:
      LaunchError: Engines that an earlier kernel numbered are gone, so that the rest cannot form a cluster.
    """
    settled = {engine: facts.settled for engine, facts in engines.items()}
    if any(number is not None for number in settled.values()):
        return _with_free_numbers(engines, settled), "as a kernel before this one has numbered them"
    joined = {e: f.joined.process_id if f.joined else None for e, f in engines.items()}
    if _is_dense(joined):
        return {e: int(n) for e, n in joined.items() if n is not None}, "as in JAX's cluster"
    for name in NUMBERS:
        numbers = {engine: facts.numbers.get(name) for engine, facts in engines.items()}
        if _is_dense(numbers):
            return {e: int(n) for e, n in numbers.items() if n is not None}, f"by {name}"
    return _by_host(engines), "by host and engine id"


def _is_dense(numbers: Mapping[int, int | None]) -> bool:
    known = [number for number in numbers.values() if number is not None]
    return sorted(known) == list(range(len(numbers)))


def _by_host(engines: Mapping[int, Described]) -> dict[int, int]:
    order = sorted(engines, key=lambda engine: (engines[engine].host, engine))
    return {engine: process_id for process_id, engine in enumerate(order)}


def _with_free_numbers(
    engines: Mapping[int, Described], settled: Mapping[int, int | None]
) -> dict[int, int]:
    """Keep the existing numbers, and give the free ones to engines that came later."""
    known = {engine: number for engine, number in settled.items() if number is not None}
    if len(set(known.values())) < len(known) or max(known.values()) >= len(engines):
        listed = ", ".join(map(str, sorted(known.values())))
        raise LaunchError(
            f"These {len(engines)} engines were processes {listed} of a session: others of it are gone. Start all "
            "of them again where they came from."
        )
    free = iter(sorted(set(range(len(engines))) - set(known.values())))
    rest = [engine for engine in _by_host(engines) if engine not in known]
    return {**known, **{engine: next(free) for engine in rest}}


def take_part(
    foreign: ForeignCluster,
    *,
    progress: StartProgress,
    platform: str | None = None,
    devices_per_process: int | None = None,
    **options: Any,
) -> Cluster:
    """Return the engines of a cluster as those of a session; they go on when this kernel leaves.

    Args:
      foreign: The cluster, and how it is reached.
      progress: Called with how many engines have joined.
      platform: What the engines are to compute on; default: as they find it themselves.
      devices_per_process: Virtual CPU devices of each engine; default: as it is set up.
      **options: Options of `StartOptions`: the framework, and how it is initialized.

    Raises:
      SessionError: There are no engines, or they do not answer.
      VersionError: Some have no nbdist, or another version.
      LaunchError: Their framework cannot be initialized.
    """
    began = time.monotonic()
    client = client_of(foreign)
    folder = folders.make()
    try:
        info = describe_engines(foreign, client, options.get("framework", "jax"))
        ids, how = number_engines(info)
        by_id = {process_id: info[engine] for engine, process_id in ids.items()}
        plan = _plan(by_id, platform, devices_per_process, options)
        _refuse(plan, by_id)
        rendezvous = _meet(plan, by_id)
        cluster = _cluster(foreign, client, plan, rendezvous, folder, ids, by_id, began=began)
    except BaseException:
        client.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        late = _prepare(cluster, by_id)
        known = framework_named(plan.framework).known(by_id)
        cluster.answers = known or join(cluster, progress=progress)
        computes = cast(Platform, next(iter(cluster.answers.values())).platform or plan.platform)
        cluster.plan = replace(plan, platform=computes, platform_chosen=platform is not None)
        cluster.asked = cluster.plan
    except BaseException:
        cluster.leave()
        raise
    cluster.remarks = (
        f"{count_text(len(ids), 'engine')} of {foreign.name}, numbered {how}; this kernel has not started them, "
        f"and {command('shutdown')} only leaves them.",
        *late,
    )
    return cluster


def _session(connection: Mapping[str, Any]) -> str:
    """Return the session's id, which is the same in every attached kernel and in the engines' reports."""
    names = ("interface", "registration", "key", "curve_serverkey")
    text = " ".join(str(connection.get(name)) for name in names)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _turn_file(connection: Mapping[str, Any]) -> Path:
    """Return the lock file in the user's state folder, the only folder that all attached kernels share."""
    folder = registry.folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{_session(connection)}.turn"


def _plan(
    by_id: Descriptions, platform: str | None, devices: int | None, options: Mapping[str, Any]
) -> Plan:
    """Return a plan that describes these engines; accelerators stay divided as they are."""
    asked = StartOptions(processes=len(by_id), platform=platform or "cpu", **options)
    plan = make_plan(asked)
    if platform is None:
        environment = {k: v for k, v in plan.environment.items() if k != "JAX_PLATFORMS"}
        plan = replace(plan, environment=environment)
    processes = tuple(
        replace(process, devices=devices, local_device_ids=None) for process in plan.processes
    )
    plan = replace(plan, processes=processes, platform_chosen=platform is not None)
    return plan.placed({p: facts.host for p, facts in by_id.items()})


def _refuse(plan: Plan, by_id: Descriptions) -> None:
    """Raise LaunchError if the framework cannot be initialized on these engines."""
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


def _cluster(
    foreign: ForeignCluster,
    client: Any,
    plan: Plan,
    rendezvous: Rendezvous,
    folder: str,
    ids: Mapping[int, int],
    by_id: Descriptions,
    *,
    began: float,
) -> Cluster:
    path = Path(folder) / "client.json"
    folders.write_private(path, dict(foreign.connection))
    engines = {process_id: engine for engine, process_id in ids.items()}
    return Cluster(
        session=_session(foreign.connection),
        asked=plan,
        plan=plan,
        folder=folder,
        agents=ForeignEngines(client, engines, folder=folder),
        began=began,
        rendezvous=rendezvous,
        client=client,
        engines=engines,
        idents={p: facts.ident.encode() for p, facts in by_id.items()},
        pids={p: facts.pid for p, facts in by_id.items()},
        client_file=str(path),
        turn_file=str(_turn_file(foreign.connection)),
    )


def _prepare(cluster: Cluster, by_id: Descriptions) -> list[str]:
    """Prepare the engines for cells, with the variables that processes of nbdist get; return remarks."""
    framework, plan = framework_named(cluster.plan.framework), cluster.plan
    late: set[str] = set()
    for process in plan.processes:
        p = process.process_id
        where = f"process {p} (host {by_id[p].host})"
        environment = {
            **plan.environment,
            **framework.environment(plan, process, cluster.rendezvous),
        }
        answer, _ = ask(
            cluster.client,
            cluster.engines[p],
            Prepare(environment=environment, framework=cluster.plan.framework),
            where=where,
        ).get(ANSWER_SECONDS)
        late |= set(answer.names) & set(plan.environment)
        hello = Greet(process_id=p, framework=cluster.plan.framework)
        ask(cluster.client, cluster.engines[p], hello, where=where).get(ANSWER_SECONDS)
    if not late:
        return []
    names = ", ".join(sorted(late))
    return [f"{names}: the engines have imported {plan.framework} before it could be set."]
