"""TPU pods: the pod that `--tpu` selects, and its workers, reached with ssh, in the order of JAX's process ids.

A named TPU is looked up with `gcloud`; this works from any machine that has `gcloud` and reaches the workers with
ssh. Without a name, the pod is the one that has this machine as a worker (`nbdist.launch.launchers.tpu_worker`).

Sources: the resource `Node` of https://cloud.google.com/tpu/docs/reference/rest/v2/projects.locations.nodes, and
`gcloud compute tpus tpu-vm ssh --dry-run` for the addresses and keys with which its workers are reached.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.launchers import ChosenLauncher
from nbdist.launch.launchers.tpu_worker import NoWorker, PodWorker, TpuPod, pod_of, read_worker
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.launch.model.plan import Placement
from nbdist.launch.model.start_options import TPU, StartOptions
from nbdist.machine import checkup
from nbdist.spelling import Placeholder, option

HERE = "here"
"""Value of `tpu` for the pod that this machine is a worker of."""


def placement(asked: StartOptions, hosts: Sequence[AskedHost], ssh: SshOptions) -> Placement:
    """Return the placement on the workers of the selected pod; a pod defines its `hosts` itself.

    Raises:
      OptionError: As `find_pod` does, or hosts are named.
      LaunchError: As `find_pod` does.
    """
    if hosts:
        raise OptionError(
            f"{option('tpu')} finds the hosts by itself; leave {option('hosts')} and "
            f"{option('hosts_file')} out."
        )
    name = None if asked.tpu == HERE else asked.tpu
    pod = find_pod(name, asked.zone, asked.project, os.environ)
    return Placement(
        launcher="tpu",
        hosts=pod_hosts(pod),
        ssh=ssh,
        remarks=pod.notes,
        ssh_advice=pod.ssh_advice,
    )


def pod_hosts(pod: TpuPod) -> tuple[AskedHost, ...]:
    """Return one host with one process for each worker, in the order of process ids.

    libtpu gives all chips of a machine to one process, and numbers the processes as the pod numbers its
    workers, so neither the number nor the order of processes can be chosen.
    """
    return tuple(
        AskedHost(name="localhost", processes=1) if worker.local else _asked(worker)
        for worker in pod.workers
    )


def _asked(worker: PodWorker) -> AskedHost:
    """Return the host of a worker. If ssh knows only a number, a readable name is used, and ssh gets both."""
    known_by_number = _is_number(worker.ssh_address)
    number = (f"-oHostName={worker.ssh_address}",) if known_by_number else ()
    return AskedHost(
        name=worker.host if known_by_number else worker.ssh_address,
        processes=1,
        ssh=(*number, *worker.ssh),
        environment=worker.environment,
    )


def _is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def find_pod(
    name: str | None, zone: str | None, project: str | None, environment: Mapping[str, str]
) -> TpuPod:
    """Return the pod that `--tpu [NAME] [--zone ZONE] [--project PROJECT]` means.

    Args:
      name: The TPU's name, or those of all its slices with commas between; None if this machine is one of
        its workers.
      zone: The zone of the name.
      project: The project of the name, None for the one `gcloud` is set to.
      environment: The kernel's environment, which is searched for a worker's variables and `gcloud`.

    Raises:
      OptionError: The options do not go together, or this machine is no worker and no name is given.
      LaunchError: The source of information about the pod fails, or its answer cannot be used.
    """
    if name is not None:
        if not zone:
            raise OptionError(
                f"{option('tpu', name)} without {option('zone')}: a TPU is found by name and zone. Write "
                f"{option('tpu', name)} {option('zone', Placeholder('ZONE'))}, such as us-central2-b; gcloud "
                f"compute tpus tpu-vm list --zone=- lists them all."
            )
        return from_gcloud(name, zone, project, environment)
    for what, value in (("zone", zone), ("project", project)):
        if value is not None:
            raise OptionError(
                f"{option(what, value)} without a name: write {option('tpu', Placeholder('NAME'))} "
                f"{option('zone', Placeholder('ZONE'))}. {option('tpu', 'here')} alone takes the pod that this "
                "machine is a worker of, and needs neither."
            )
    found = read_worker(environment)
    if isinstance(found, NoWorker):
        raise OptionError(
            f"{option('tpu')} without a name: this machine is no worker of a TPU pod: {found.reason}. From "
            f"another machine, name the TPU: {option('tpu', Placeholder('NAME'))} "
            f"{option('zone', Placeholder('ZONE'))}."
        )
    return pod_of(found)


SSH_PORT = 22
PROBE_SECONDS = 2.0


def reached(
    workers: tuple[PodWorker, ...], outside: Sequence[str]
) -> tuple[tuple[PodWorker, ...], tuple[str, ...]]:
    """Return the workers with the addresses for ssh, and a note about the addresses.

    Internal addresses, in the pod's network, are used if ssh answers there or if this machine is a worker; else
    the external addresses, if all workers have one.

    Args:
      workers: All workers, with their internal addresses.
      outside: The external address of each; empty if it has none.
    """
    others = [worker for worker in workers if not worker.local]
    if len(others) < len(workers) or not all(outside) or _answers(others[0].address):
        return workers, ()
    note = (
        f"Nothing answers at {others[0].address}, port {SSH_PORT}, so the workers are reached at their external "
        "addresses. They must reach this machine as well."
    )
    moved = zip(workers, outside, strict=True)
    return tuple(replace(worker, ssh_address=address) for worker, address in moved), (note,)


def _answers(address: str) -> bool:
    try:
        with socket.create_connection((address, SSH_PORT), timeout=PROBE_SECONDS):
            return True
    except OSError:
        return False


def ssh_options(node_id: str, index: int, home: Path) -> tuple[str, ...]:
    """Return the options that `gcloud compute tpus tpu-vm ssh` itself would give to ssh, if its files exist.

    `gcloud` keeps host keys in a file of its own, under the name `tpu.ID-WORKER-SUFFIX`; the suffix comes from
    the host key. Host keys are always checked here; `gcloud` does not check them the first time.

    Args:
      node_id: The field `id` of the TPU.
      index: The worker's number in its slice.
      home: The folder that holds `.ssh`.
    """
    found: list[str] = []
    key, known = home / ".ssh/google_compute_engine", home / ".ssh/google_compute_known_hosts"
    if key.is_file():
        found += [f'-oIdentityFile="{key}"', "-oIdentitiesOnly=yes"]
    wanted = re.compile(rf"tpu\.{re.escape(node_id)}-{index}(?:-\S+)?")
    try:
        names = [line.split(" ", 1)[0] for line in known.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return tuple(found)
    aliases = [each for name in names for each in name.split(",") if wanted.fullmatch(each)]
    if aliases:
        # A worker that was created again has a new line, below the old one.
        alias = [f"-oHostKeyAlias={aliases[-1]}", f'-oUserKnownHostsFile="{known}"']
        found += [*alias, "-oCheckHostIP=no"]
    return tuple(found)


GCLOUD_SECONDS = 60.0
"""Seconds `gcloud` may take to describe a TPU; in a try it took 2.5 s, most of it for its own start."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuName:
    """A TPU's name, zone and project."""

    name: str
    zone: str
    project: str | None

    @property
    def flags(self) -> list[str]:
        """The words that name the TPU to `gcloud`."""
        return [
            self.name,
            "--zone",
            self.zone,
            *(["--project", self.project] if self.project else []),
        ]

    def command(self, verb: str, *more: str) -> str:
        """Return a `gcloud` command that the user can type."""
        return " ".join(["gcloud compute tpus tpu-vm", verb, *self.flags, *more])


def from_gcloud(
    name: str, zone: str, project: str | None, environment: Mapping[str, str]
) -> TpuPod:
    """Return the pod that `gcloud` describes under a name.

    Args:
      name: The TPU's name, or those of several slices with commas between, in the order of their slice ids.
      zone: The TPU's zone.
      project: The TPU's project, None for the one `gcloud` is set to.
      environment: The environment in which `gcloud` is looked for and runs.

    Raises:
      OptionError: There is no `gcloud`, a name cannot be one, or several names are not slices of one pod.
      LaunchError: `gcloud` fails or does not answer within 60 s, or the TPU is not ready.
    """
    names = [part.strip() for part in name.split(",")]
    places = [TpuName(name=each, zone=zone, project=project) for each in names]
    _refuse_impossible(names, zone, project)
    program = shutil.which("gcloud", path=environment.get("PATH"))
    if program is None:
        raise OptionError(
            f"{option('tpu', name)}: gcloud is not on this machine's PATH, and it is what finds the workers. "
            f"Install it (https://cloud.google.com/sdk/docs/install), name the workers with {option('hosts')}, "
            f"or run the notebook on a worker of the TPU and write {option('tpu', 'here')} alone."
        )
    nodes = _describe(program, places, environment)
    _refuse_strangers(name, nodes)
    workers = [_workers(*each) for each in zip(places, nodes, range(len(nodes)), strict=True)]
    outside = [
        str((each.get("accessConfig") or {}).get("externalIp", ""))
        for node in nodes
        for each in _endpoints(node)
    ]
    chosen, note = reached(tuple(worker for of_slice in workers for worker in of_slice), outside)
    home = Path(environment.get("HOME") or Path.home())
    ids = [str(node.get("id", "")) for node in nodes]
    return TpuPod(
        name=name,
        workers=tuple(_with_keys(worker, ids[worker.slice_index], home) for worker in chosen),
        notes=(*_notes(places, nodes), *note),
        ssh_advice=f"{places[0].command('ssh', '--worker=all', '--command=true')} makes the key and learns "
        "the workers' host keys, once for each TPU.",
    )


def _refuse_impossible(names: Sequence[str], zone: str, project: str | None) -> None:
    given = [("tpu", name) for name in names] + [("zone", zone)]
    for what, value in [*given, *([("project", project)] if project is not None else [])]:
        if not _PLAIN.fullmatch(value):
            raise OptionError(
                f"{option(what, value)}: no such name can exist. Expected letters, digits and hyphens, such as "
                f"{option('tpu', 'my-tpu')} {option('zone', 'us-central2-b')}."
            )
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise OptionError(
            f"{option('tpu', ','.join(names))}: {doubled[0]} is named more than once."
        )


def _describe(
    program: str, places: Sequence[TpuName], environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the resource `Node` of each place, in state READY; all are asked for at the same time."""
    with ExitStack() as stack:
        running = [stack.enter_context(_gcloud(program, each, environment)) for each in places]
        return [_answer(place, process) for place, process in zip(places, running, strict=True)]


@contextmanager
def _gcloud(
    program: str, place: TpuName, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Run `gcloud` during the block; it has ended when the block ends, even after an interrupt."""
    command = [program, "compute", "tpus", "tpu-vm", "describe", *place.flags]
    try:
        process = subprocess.Popen(
            # Without --quiet it may wait for an answer that nobody can give.
            [*command, "--format", "json", "--quiet"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise LaunchError(
            f"{option('tpu', place.name)}: gcloud cannot be run ({error})."
        ) from error
    with process:
        try:
            yield process
        finally:
            process.kill()
            # After an interrupt the end of the `with` block would not wait.
            process.wait()


def _answer(place: TpuName, process: subprocess.Popen[str]) -> dict[str, Any]:
    shown = place.command("describe")
    try:
        printed, errors = process.communicate(timeout=GCLOUD_SECONDS)
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"{option('tpu', place.name)}: gcloud did not answer within {GCLOUD_SECONDS:.0f} s. Try in a "
            f"terminal: {shown}"
        ) from None
    if process.returncode != 0:
        said = own_words(errors) or f"nothing, with exit code {process.returncode}"
        raise LaunchError(
            f"{option('tpu', place.name)}: gcloud cannot describe it. gcloud says: {said}\nTry in a terminal: "
            f"{shown}"
        )
    try:
        node = json.loads(printed)
    except ValueError:
        node = None
    if not isinstance(node, dict):
        raise LaunchError(
            f"{option('tpu', place.name)}: gcloud's answer is no description of a TPU: "
            f"{printed.strip()[:200] or 'it is empty'}. Try in a terminal: {shown}"
        )
    _refuse_unready(place, node)
    return node


def own_words(stderr: str) -> str:
    """Return the error message of `gcloud`, without its prefix and without the fields of the reply below it."""
    lines = re.sub(r"^ERROR: \(gcloud[\w.-]*\) ", "", stderr.strip(), flags=re.M).splitlines()
    ends = [number for number, line in enumerate(lines) if line.startswith("- '@type'")]
    return "\n".join(lines[: ends[0] if ends else None]).strip()


def _refuse_unready(place: TpuName, node: Mapping[str, Any]) -> None:
    state = str(node.get("state", "STATE_UNSPECIFIED"))
    if state != "READY":
        described = node.get("healthDescription")
        what = {
            "STOPPED": f" Start it: {place.command('start')}",
            "PREEMPTED": " It was preempted and cannot be started again: create it anew.",
            "TERMINATED": " It has ended and cannot be started again: create it anew.",
        }.get(state, f" Wait until it is READY: {place.command('describe')}")
        raise LaunchError(
            f"{option('tpu', place.name)}: the TPU is in state {state}, and must be "
            f"READY.{f' Google says: {described}' if described else ''}{what}"
        )
    if not _endpoints(node):
        raise LaunchError(
            f"{option('tpu', place.name)}: gcloud describes it without workers (networkEndpoints is empty). "
            f"Look at it: {place.command('describe')}"
        )


def _endpoints(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the network endpoint of each worker, in their order; empty if one has no address."""
    found = node.get("networkEndpoints")
    kept: list[Mapping[str, Any]] = found if isinstance(found, list) else []
    return kept if all(isinstance(each, dict) and each.get("ipAddress") for each in kept) else []


def _refuse_strangers(name: str, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse several names that are not slices of one pod."""
    requests = {str(node.get("queuedResource")) for node in nodes}
    sizes = {len(_endpoints(node)) for node in nodes}
    if len(requests) > 1:
        raise OptionError(
            f"{option('tpu', name)}: these are not slices of one pod; they were made by different requests "
            f"({', '.join(sorted(requests))}). Name one TPU, or all slices of one queued resource."
        )
    if len(sizes) > 1:
        raise OptionError(
            f"{option('tpu', name)}: these slices have {' and '.join(map(str, sorted(sizes)))} workers; all "
            "slices of a pod have the same number."
        )


def _workers(place: TpuName, node: Mapping[str, Any], slice_index: int) -> list[PodWorker]:
    return [
        PodWorker(
            index=index,
            slice_index=slice_index,
            address=str(endpoint["ipAddress"]),
            host=f"{place.name}-w-{index}",
            ssh_address=str(endpoint["ipAddress"]),
            local=checkup.is_own(str(endpoint["ipAddress"])),
        )
        for index, endpoint in enumerate(_endpoints(node))
    ]


def _with_keys(worker: PodWorker, node_id: str, home: Path) -> PodWorker:
    return worker if worker.local else replace(worker, ssh=ssh_options(node_id, worker.index, home))


def _notes(places: Sequence[TpuName], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences that a person should know about the TPUs before anything is started on them."""
    notes = []
    for place, node in zip(places, nodes, strict=True):
        health = str(node.get("health", "HEALTHY"))
        if health not in ("HEALTHY", "HEALTH_UNSPECIFIED"):
            described = node.get("healthDescription")
            notes.append(
                f"TPU {place.name}: its health is {health}{f' ({described})' if described else ''}."
            )
    if len(nodes) == 1 and nodes[0].get("multisliceNode") is True:
        notes.append(
            f"TPU {places[0].name} is one slice of several (queued resource "
            f"{nodes[0].get('queuedResource', 'unknown')}). libtpu waits for all of them: name them in order, "
            f"{option('tpu', Placeholder('SLICE0,SLICE1'))}."
        )
    return notes


LAUNCHER = ChosenLauncher(TPU, placement)
