"""Keys and ssh configuration of a test bed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# The exchange of keys is the fastest there is: it is most of the time a connection takes.
OPTIONS = """
Host * !wrongkey
  IdentityFile {folder}/id
Host *
  User root
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
  KexAlgorithms curve25519-sha256
  ConnectTimeout 5
"""

DAEMON = """
ListenAddress {address}
HostKey {folder}/{name}/hostkey
AuthorizedKeysFile {folder}/id.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
MaxStartups 200
Subsystem sftp internal-sftp
"""


def make_keys(paths: Sequence[Path]) -> None:
    """Makes a pair of keys at each path."""

    def make(path: Path) -> None:
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path))
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, paths))


def write(folder: Path, addresses: dict[str, str], *, dead: str) -> Path:
    """Writes keys, known hosts, one sshd configuration a host and the configuration for clients.

    Besides the hosts, the latter has names that fail: `wrongkey`, whose key h1 refuses; `unknownkey`,
    for h1 with no known key; `nosuchhost`, which has no address; `dead`, where nobody answers.

    Args:
      folder: Of the bed; it has a folder for each host.
      addresses: Of each host, by name.
      dead: An address nobody has.

    Returns:
      The configuration for clients.
    """
    make_keys(
        [folder / "id", folder / "id_wrong", *(folder / name / "hostkey" for name in addresses)]
    )
    hosts, known = [], []
    for name, address in addresses.items():
        hosts.append(f"Host {name}\n  HostName {address}\n")
        kind, key, *_ = (folder / name / "hostkey.pub").read_text().split()
        known.append(f"{address} {kind} {key}\n")
        daemon = DAEMON.format(address=address, folder=folder, name=name)
        (folder / name / "sshd_config").write_text(daemon)
    first = addresses["h1"]
    hosts += [
        f"Host wrongkey\n  HostName {first}\n  IdentityFile {folder}/id_wrong\n",
        f"Host unknownkey\n  HostName {first}\n  UserKnownHostsFile /dev/null\n",
        "Host nosuchhost\n  HostName nosuchhost.invalid\n",
        f"Host dead\n  HostName {dead}\n  ConnectTimeout 2\n",
    ]
    (folder / "known_hosts").write_text("".join(known))
    config = folder / "ssh_config"
    # Of most options the first value counts, so those for all hosts come last.
    config.write_text("".join(hosts) + OPTIONS.format(folder=folder))
    return config
