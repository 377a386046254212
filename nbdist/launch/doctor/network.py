"""Checks of names, connections and clocks: whether the hosts find each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from nbdist.contract.checkup import Checkup, Connection, OldPython
from nbdist.launch.doctor.finding import THIS_MACHINE, Case, Finding
from nbdist.quantities import seconds_text
from nbdist.spelling import option, start_with

CLOCK_SECONDS = 1.0
"""If clocks differ by more, times of different hosts no longer show what came first."""


def names(case: Case) -> Iterator[Finding]:
    """Check that a host's own name leads to an address of that host at which others reach it.

    nbdist gives the address to gloo, which carries the collectives of CPUs; plain JAX listens where the host's own
    name leads.
    """
    if not case.spread:
        return
    name, host = case.facts.name, case.facts.host
    address = _address(case) or "ITS-ADDRESS"
    entry = case.there(f"sudo sh -c 'echo {address} {host} >> /etc/hosts'")
    consequence = (
        "nbdist gives its processes the right address; jax.distributed in a plain script would fail or hang "
        "in the first collective on CPUs"
    )
    if name.error:
        what = f"its own name {host!r} cannot be resolved ({name.error})"
        yield case.warning(f"{what}; {consequence}", where="/etc/hosts and DNS", do=entry)
        return
    if all(ipaddress.ip_address(found.partition("%")[0]).is_loopback for found in name.addresses):
        listed = ", ".join(name.addresses)
        yield case.warning(
            f"its own name {host!r} leads to {listed}, where no other host reaches it; {consequence}",
            where="/etc/hosts",
            do=case.there(_replace(name.addresses[0], address, host)),
        )
        return
    if not name.own:
        what = f"its own name {host!r} leads to {', '.join(name.addresses)}, which is another machine's"
        yield case.warning(f"{what}; {consequence}", where="/etc/hosts and DNS", do=entry)


def _address(case: Case) -> str | None:
    """Return the address at which other hosts reach this one."""
    if not case.examined.local:
        return _server(case)
    others = (facts.seen_as for facts in case.all_facts)
    return next((seen.client for seen in others if seen is not None), None)


def _server(case: Case) -> str | None:
    """Return the host's address, as its sshd sees it."""
    seen = case.facts.seen_as
    return seen.server if seen is not None else None


def _client(case: Case) -> str | None:
    """Return this machine's address, as the host sees it."""
    seen = case.facts.seen_as
    return seen.client if seen is not None else None


def _replace(old: str, address: str, host: str) -> str:
    if old == "127.0.1.1":
        # Debian's installer gives the name this line of its own.
        return f"sudo sed -i.bak 's/^127.0.1.1/{address}/' /etc/hosts"
    return f"sudo sed -i.bak '/^127/s/ {host}//; 1i {address} {host}' /etc/hosts"


def reach(case: Case) -> Iterator[Finding]:
    """Check that each host can connect to the notebook and to each other host, and the notebook to each."""
    one = case.examined
    for other, answer in one.reached.items():
        if answer.error is None:
            continue
        if other == THIS_MACHINE:
            yield _silent(case, answer)
        else:
            yield case.error(
                f"cannot connect to {other}: {answer.error}",
                where=f"{one.host} → {other}, any TCP port",
                do=_open(case, other),
            )
    if one.reachable is not None and one.reachable.error is not None:
        here = any(other.local for other in case.everyone)
        progress = case.error if here else case.warning
        need = "" if here else "; cells do not need it, since no process runs on this machine"
        yield progress(
            f"this machine cannot connect to it: {one.reachable.error}{need}",
            where=f"{THIS_MACHINE} → {one.host}, any TCP port",
            do=_let_in(one.shell, case.facts, _client(case)),
        )


def _silent(case: Case, answer: Connection) -> Finding:
    """Return the finding about a host that cannot connect to the notebook."""
    address, seen = answer.address, _client(case)
    what = f"cannot connect to the notebook's machine{f' at {address}' if address else ''}: {answer.error}"
    where = f"{case.examined.host} → {THIS_MACHINE}, any TCP port"
    if address and address.startswith("127."):
        return case.error(
            f"ssh does not forward ports to this machine ({option('tunnel', True)}): {answer.error}",
            where=f"sshd of {case.examined.host}, or a port that is taken there",
            do=f"{case.there('sudo sshd -T')}, and set AllowTcpForwarding yes in sshd_config where it says no; or "
            "start again, with other ports",
        )
    if seen and address and seen != address:
        return case.error(
            f"{what}; it sees {seen} in its place, so ssh goes through another host, or addresses are changed "
            "on the way",
            where=where,
            do="run the notebook on a machine in the hosts' own network, such as the first host; or name an "
            f"address that they reach with {option('controller_address')}{_tunnel(case)}",
        )
    opened = _let_in("", case.kernel, _server(case))
    return case.error(what, where=where, do=f"{opened}{_tunnel(case)}")


def _tunnel(case: Case) -> str:
    """Return advice to use ssh past a blocked connection, if ssh leads to all hosts and no process runs here."""
    if case.needs.launcher not in ("ssh", "tpu") or any(one.local for one in case.everyone):
        return ""
    return f"; or go through ssh: {start_with('tunnel', True)}, and the same hosts"


def _open(case: Case, other: str) -> str:
    """Return the command that opens the other host's firewall for this host's address."""
    found = next(one for one in case.everyone if one.host == other)
    return _let_in(found.shell, found.facts, _server(case))


def _let_in(shell: str, facts: Checkup | OldPython | None, address: str | None) -> str:
    source = address or "ADDRESS"
    firewalls = facts.firewalls if isinstance(facts, Checkup) else ()
    if "ufw" in firewalls:
        return f"{shell}sudo ufw allow from {source}"
    if "firewall-cmd" in firewalls:
        return f"{shell}sudo firewall-cmd --zone=trusted --add-source={source}"
    return f"{shell}sudo iptables -I INPUT -s {source} -p tcp -j ACCEPT, or open it in the network's firewall"


def clocks(case: Case) -> Iterator[Finding]:
    """Check that the host's clock is within a second of this machine's."""
    clock = case.examined.clock
    if clock is None or abs(clock.ahead_s) - clock.within_s <= CLOCK_SECONDS:
        return
    side = "ahead of" if clock.ahead_s > 0 else "behind"
    yield case.warning(
        f"its clock is {seconds_text(abs(clock.ahead_s))} {side} this machine's; times in the view and in logs "
        "will not match",
        where=f"the clocks of {case.examined.host} and {THIS_MACHINE}",
        do=f"{case.there('sudo timedatectl set-ntp true')}, and the same here",
    )
