"""ssh connections to the workers that `gcloud` names: addresses and keys."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nbdist.launch.tpu.pod import PodWorker

SSH_PORT = 22
PROBE_SECONDS = 2.0


def reached(
    workers: tuple[PodWorker, ...], outside: Sequence[str]
) -> tuple[tuple[PodWorker, ...], tuple[str, ...]]:
    """Return the workers with the addresses ssh is to use, and a note about them.

    The addresses inside the pod's network are used if ssh answers there, or if this machine is one of the workers;
    else those outside, if all workers have one.

    Args:
      workers: All workers, with their addresses inside.
      outside: The address outside of each, empty if it has none.
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

    Args:
      node_id: The field `id` of the TPU.
      index: The worker's number in its slice.
      home: The folder that holds `.ssh`.

    `gcloud` keeps host keys in a file of its own, under the name `tpu.ID-WORKER-SUFFIX`; the suffix comes from
    the host key. Host keys are always checked here; `gcloud` does not check them the first time.
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
        # A worker that was made anew has a new line, below the old one.
        alias = [f"-oHostKeyAlias={aliases[-1]}", f'-oUserKnownHostsFile="{known}"']
        found += [*alias, "-oCheckHostIP=no"]
    return tuple(found)
