"""Facts of machines on which all is well, to be changed by tests."""

from __future__ import annotations

from typing import Any

from nbdist.contract.checkup import Checkup, Connection, OldPython
from nbdist.contract.wire import decode
from nbdist.launch.doctor.finding import Examined, Finding, Needs
from nbdist.launch.doctor.judge import judge

VERSIONS = {
    "nbdist": "0.2.0",
    "ipyparallel": "9.2.0",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "numpy": "2.4.0",
    "keras": "3.15.1",
    "tensorflow": "2.21.0",
    "libtpu": None,
}


def facts(host: str = "h1", *, address: str = "10.0.0.11", **changed: Any) -> Checkup:
    """Facts of one host, `changed` as plain data; `packages` are added to what is usual."""
    packages = {**VERSIONS, **changed.pop("packages", {})}
    plain = {
        "host": host,
        "python": [3, 11, 7],
        "executable": "/usr/bin/python3",
        "user": "ada",
        "name": {"addresses": [address], "own": [address], "error": None},
        "seen_as": {"client": "10.0.0.1", "server": address},
        "packages": packages,
        "distributions": {},
        "variables": {},
        "memory": {"total": 64 << 30, "available": 60 << 30},
        "temporary": {"path": "/tmp", "free": 50 << 30, "error": None, "instead": None},
        "folder": {"path": "/home/ada", "exists": True},
        "accelerators": {"gpus": 0, "tpus": 0},
        "locks": [],
        "holders": [],
        "leftovers": [],
        "firewalls": [],
        "port_range": [32768, 60999],
        "time": 1000.0,
        **changed,
    }
    return decode(Checkup, plain)


def kernel(**changed: Any) -> Checkup:
    """Facts of the kernel's machine."""
    return facts("head", address="10.0.0.1", **{"seen_as": None, **changed})


def examined(
    host: str = "h1", *, reported: Checkup | OldPython | None = None, **changed: Any
) -> Examined:
    """A host that is not this machine; `reached` and `reachable` as plain data."""
    if "reached" in changed:
        changed["reached"] = {p: decode(Connection, c) for p, c in changed["reached"].items()}
    if "reachable" in changed:
        changed["reachable"] = decode(Connection, changed["reachable"])
    given = {"shell": f"ssh {host} ", "facts": reported or facts(host), **changed}
    return Examined(host=host, **given)


def found(*everyone: Examined, here: Checkup | None = None, **needs: Any) -> list[Finding]:
    """What is found wrong."""
    return judge(everyone, kernel=here or kernel(), needs=Needs(**needs))


def only(findings: list[Finding]) -> Finding:
    """The one finding there is."""
    assert len(findings) == 1, findings
    return findings[0]
