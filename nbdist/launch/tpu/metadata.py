"""Google's metadata server, as a worker of a pod on Compute Engine sees it.

Source: https://cloud.google.com/compute/docs/metadata/querying-metadata and, for the attributes of a pod,
jax/_src/clusters/cloud_tpu_cluster.py.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping

from nbdist.errors import LaunchError
from nbdist.launch.tpu.worker import NoWorker, Worker, check_index, slices, whole_number
from nbdist.spelling import option

HOST = "metadata.google.internal"
TIMEOUT_SECONDS = 2.0
"""Seconds to wait: the server is on the machine itself, or there is none."""

_ATTRIBUTES = "/computeMetadata/v1/instance/attributes/"
_FLAVOR = {"Metadata-Flavor": "Google"}
MEGASCALE = (
    "MEGASCALE_COORDINATOR_ADDRESS",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_SLICE_ID",
)


class Silent(Exception):
    """No metadata server of Google answers; the text says what was seen."""


def attribute(name: str, environment: Mapping[str, str]) -> str | None:
    """Return one attribute of this machine, asked for without a proxy; None if there is none of that name.

    Args:
      name: The attribute.
      environment: `GCE_METADATA_IP` names another server, as it does for JAX.

    Raises:
      Silent: Nobody answers within 2 s, or another server than Google's.
    """
    server = environment.get("GCE_METADATA_IP", HOST)
    request = urllib.request.Request(f"http://{server}{_ATTRIBUTES}{name}", headers=_FLAVOR)
    # A proxy would answer with the metadata of its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            if answer.headers.get("Metadata-Flavor") != "Google":
                raise Silent(f"{server} answers, but not as Google's metadata server does")
            return str(answer.read().decode("utf-8"))
    except urllib.error.HTTPError as error:
        with error:
            if error.headers.get("Metadata-Flavor") != "Google":
                raise Silent(
                    f"{server} answers, but not as Google's metadata server does"
                ) from error
            if error.code == 404:
                return None
            raise Silent(f"{server} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise Silent(f"no metadata server answers at {server} ({error.reason})") from error
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        raise Silent(f"no metadata server answers at {server} ({error!r})") from error


def tpu_environment(text: str) -> dict[str, str]:
    """Read the attribute `tpu-env`: lines such as `MEGASCALE_NUM_SLICES: '2'`."""
    pairs = (line.split(":", 1) for line in text.split("\n") if ":" in line)
    return {name.strip(): value.strip().strip("'") for name, value in pairs}


def megascale(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of several slices: the environment's if set, else those of `tpu-env`, as JAX does."""
    both = {**given, **environment}
    return {name: both[name] for name in MEGASCALE if name in both}


def endpoints(text: str) -> tuple[tuple[str, str], ...]:
    """Return host name (empty if not given) and address of each worker of the slice, in their order.

    Args:
      text: The attribute `worker-network-endpoints`: `NAME:ID:IP,…` or `ADDRESS,…`.

    Raises:
      LaunchError: It has neither form.
    """
    found = []
    for entry in text.strip().split(","):
        parts = entry.strip().split(":")
        if len(parts) not in (1, 3) or not parts[-1]:
            raise LaunchError(
                f"The metadata server names a worker as {entry!r}. Known are NAME:ID:ADDRESS and ADDRESS: this "
                f"pod cannot be read. Name its workers with {option('hosts')}, in their order."
            )
        name = parts[0] if parts[0] not in ("unknown", parts[-1]) else ""
        found.append((name, parts[-1]))
    return tuple(found)


def read_worker(environment: Mapping[str, str]) -> Worker | NoWorker:
    """Return this machine as a worker of a pod on Compute Engine.

    Raises:
      LaunchError: The metadata server's answer cannot be read.
    """
    if "TPU_SKIP_MDS_QUERY" in environment:
        return NoWorker(reason="TPU_SKIP_MDS_QUERY is set, so the metadata server is not asked")
    try:
        number = attribute("agent-worker-number", environment)
        if number is None:
            return NoWorker(
                reason="the metadata server has no agent-worker-number for this machine"
            )
        listed = attribute("worker-network-endpoints", environment)
        given = tpu_environment(attribute("tpu-env", environment) or "")
        kind = attribute("accelerator-type", environment) or given.get("ACCELERATOR_TYPE")
    except Silent as error:
        return NoWorker(reason=str(error))
    if not listed:
        raise LaunchError(
            f"The metadata server says that this is worker {number}, but names no workers "
            f"(worker-network-endpoints is missing). Name them with {option('hosts')}, in their order."
        )
    index = whole_number(number, "agent-worker-number")
    found = endpoints(listed)
    addresses = tuple(address for _, address in found)
    check_index(
        index, addresses, index_name="agent-worker-number", list_name="worker-network-endpoints"
    )
    of_slices = slices(megascale(environment, given))
    return Worker(
        form="gcetpu",
        index=index,
        addresses=addresses,
        hosts=tuple(name for name, _ in found),
        slices=of_slices.count,
        slice_index=of_slices.index,
        megascale_coordinator=of_slices.coordinator,
        name=given.get("NODE_ID"),
        zone=given.get("ZONE"),
        accelerator_type=kind,
    )
