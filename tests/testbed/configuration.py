"""How a host of the test bed can differ from the others, and the files that make it so."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.testbed.booted import HERE, mac
from tests.testbed.number import subnet

ROOT = HERE.parents[1]
METADATA_ADDRESS = "169.254.169.254"
NO_NAMES = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
"""Hosts reach no name server, so that is said at once."""


@dataclass(frozen=True)
class HostOptions:
    """How one host differs from the others.

    Attributes:
      own_name: What the host's own name means there: its address; `127.0.1.1`, as Debian's
        installer writes it; or nothing at all.
      tmp_bytes: Size of its /tmp, which is its /var/tmp as well.
      metadata: Attributes that a metadata server tells there, as on Google's machines.
      shown: Folders in this machine's /tmp to be seen on the host as well.
    """

    own_name: Literal["address", "loopback", "unknown"] = "address"
    tmp_bytes: int = 2 << 30
    metadata: Mapping[str, str] | None = None
    shown: tuple[Path, ...] = ()


def address(number: int, i: int) -> str:
    """Of host i of bed `number`."""
    return f"{subnet(number)}.{10 + i}"


def head_address(number: int) -> str:
    """This machine's, in the network of bed `number`."""
    return f"{subnet(number)}.1"


def below(folder: str, paths: Sequence[Path]) -> list[Path]:
    """Those of the paths that are in a folder."""
    return [path for path in paths if path.is_relative_to(folder)]


def outermost(paths: Sequence[Path]) -> list[str]:
    """The paths without those that others contain."""
    return sorted(
        str(path)
        for path in set(paths)
        if not any(path != other and path.is_relative_to(other) for other in paths)
    )


def names(number: int, i: int, count: int, option: HostOptions) -> str:
    """The /etc/hosts of host i of `count`."""
    lines = ["127.0.0.1 localhost", f"{head_address(number)} head"]
    lines += [f"{address(number, j)} h{j}" for j in range(1, count + 1) if j != i]
    if option.own_name != "unknown":
        lines.append(f"{address(number, i) if option.own_name == 'address' else '127.0.1.1'} h{i}")
    if option.metadata is not None:
        lines.append(f"{METADATA_ADDRESS} metadata.google.internal metadata")
    return "\n".join([*lines, ""])


def network(number: int, i: int, option: HostOptions) -> list[str]:
    """The lines that make host i's network, for `ip -batch`."""
    head = head_address(number)
    lines = ["link set lo up", f"addr add {address(number, i)}/24 dev eth0", "link set eth0 up"]
    lines += [
        f"route add default via {head}",
        f"neigh replace {head} lladdr {mac(number, 0)} dev eth0",
    ]
    if option.metadata is not None:
        lines.append(f"addr add {METADATA_ADDRESS}/32 dev lo")
    return lines


def services(own: Path, option: HostOptions) -> list[list[str]]:
    """The commands that host i runs while it lives."""
    commands = [["/usr/sbin/sshd", "-D", "-e", "-f", f"{own}/sshd_config"]]
    if option.metadata is not None:
        server = (sys.executable, "-I", str(HERE / "metadata_server.py"))
        commands.append([*server, METADATA_ADDRESS, json.dumps(dict(option.metadata))])
    return commands


def write(number: int, i: int, count: int, *, bed: Path, option: HostOptions) -> None:
    """Writes what host i of `count` reads when it starts, into its folder in that of the bed."""
    own = bed / f"h{i}"
    needed = [ROOT, Path(sys.prefix), Path(sys.base_prefix), *option.shown]
    config = {
        "name": f"h{i}",
        "folder": str(own),
        "tmp_size": str(option.tmp_bytes),
        "shown": outermost([*below("/tmp", needed), bed]),
        "var_tmp": not below("/var/tmp", needed),
        "network": network(number, i, option),
        "services": services(own, option),
    }
    (own / "scratch").mkdir(parents=True)
    (own / "hosts").write_text(names(number, i, count, option))
    (own / "resolv.conf").write_text(NO_NAMES)
    (own / "host.json").write_text(json.dumps(config))
