"""Checks of hosts as one cluster: names, connections, clocks, and the environment variables that describe one.

They find obstacles between the hosts, variables that describe a cluster (perhaps a different one), and variables
that make processes compile different programs.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Mapping

from nbdist.contract.checkup import Checkup, Connection, OldPython
from nbdist.launch.detection import PROXIES
from nbdist.launch.doctor.finding import THIS_MACHINE, Case, Finding
from nbdist.launch.model.framework import framework_named
from nbdist.notation import seconds_text
from nbdist.spelling import option, start_with

CLOCK_SECONDS = 1.0
"""Difference of clocks above which times from different hosts do not tell which event was first."""


def names(case: Case) -> Iterator[Finding]:
    """Check that a host's own name resolves to an address at which the other hosts reach it.

    nbdist gives the right address to gloo, which carries the collectives of CPUs; plain JAX listens at the address
    to which the host's own name resolves.
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
        # Debian's installer writes a separate line for the name.
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
    """Return advice to use ssh past a blocked connection, if ssh reaches all hosts and no process runs here."""
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


SCHEDULERS = {
    "SLURM_": ("slurm", "Slurm"),
    "PMI": ("mpi", "MPI"),
    "OMPI_": ("mpi", "Open MPI"),
    "TPU_": ("tpu", "a TPU pod"),
    "CLOUD_TPU_": ("tpu", "a TPU pod"),
    "MEGASCALE_": ("tpu", "a TPU pod of several slices"),
    "KUBERNETES_": ("k8s", "Kubernetes"),
    "JAX_COORDINATOR": ("jax", "a JAX cluster"),
    "JAX_LOCAL_DEVICE_IDS": ("jax", "a JAX cluster"),
}
"""Launcher that sets a variable, and the cluster JAX would take it for, by the beginning of its name."""

TAKEN_UNASKED = "JAX_LOCAL_DEVICE_IDS"
"""Variable that JAX reads even if all arguments are given (0.10.2)."""

COMPILED_IN = ("JAX_", "XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that may change what is computed: processes that differ compile different programs."""

LOCAL_WORDS = ("_DIR", "_CACHE", "_LOG", "_DUMP", "_TRACEBACK")
"""Words in the names of variables that concern one machine's files and messages."""

BY_IMPORTS = ("TPU_SKIP_MDS_QUERY", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION")
"""Variables that JAX and TensorFlow set when they are imported, on any machine.

Source: `jax._src.cloud_tpu_init`, JAX 0.12; `tensorflow.python.tpu`, TensorFlow 2.21."""

OWN = ("JAX_PLATFORMS", "JAX_ENABLE_RECOVERABILITY", "JAX_COORDINATOR", TAKEN_UNASKED)
"""Variables that nbdist sets, or that are reported elsewhere."""


def scheduler(case: Case) -> Iterator[Finding]:
    """Find variables from which JAX would detect a cluster other than the requested one."""
    on_tpu = case.facts.accelerators.tpus > 0
    for launcher, meaning in dict.fromkeys(SCHEDULERS.values()):
        if launcher == case.needs.launcher or (launcher == "tpu" and on_tpu):
            continue
        # Slurm sets PMI variables for its tasks, and mpirun may start its ranks within an allocation.
        if {launcher, case.needs.launcher} == {"slurm", "mpi"}:
            continue
        prefixes = tuple(p for p, entry in SCHEDULERS.items() if entry == (launcher, meaning))
        found = [
            name
            for name in case.facts.variables
            if name.startswith(prefixes) and name not in BY_IMPORTS
        ]
        if not found:
            continue
        if TAKEN_UNASKED in found:
            effect = f"so that only {TAKEN_UNASKED} misleads it"
            do = start_with("environment", {TAKEN_UNASKED: ""})
        else:
            effect = "so that it is not misled"
            do = f"nothing; before scripts of your own: unset {' '.join(found)}"
        yield case.warning(
            f"{_listed(case, found)} set, as under {meaning}; nbdist passes every argument to JAX and "
            f"switches its detection off, {effect}",
            where=_environment(case),
            do=do,
        )


def tf_config(case: Case) -> Iterator[Finding]:
    """Find a `TF_CONFIG` that would make a process a member of another cluster, with another role."""
    value = case.facts.variables.get("TF_CONFIG")
    framework = framework_named(case.needs.framework)
    # On the kernel's own machine the user set the variable: the plan follows or refuses it.
    if value is None or (case.examined.local and framework.each_serves):
        return
    progress = case.error if framework.reads_tf_config else case.warning
    yield progress(
        f"TF_CONFIG is set ({value}): TensorFlow and nbdist.keras would take each process for that task",
        where=_environment(case),
        do=f"{case.there('grep -n TF_CONFIG ~/.bashrc ~/.profile ~/.ssh/environment /etc/environment')}, and take "
        "it out there"
        if not case.examined.local
        else "import os; os.environ.pop('TF_CONFIG')",
    )


def differing(case: Case) -> Iterator[Finding]:
    """Find compiler options that differ between hosts; the kernel's own options are sent to all of them."""
    kernel = _options(case.kernel.variables)
    sets = [{**_options(facts.variables), **kernel} for facts in case.all_facts]
    own = {**_options(case.facts.variables), **kernel}
    for name in sorted({name for options in sets for name in options}):
        usual, count = Counter(options.get(name) for options in sets).most_common(1)[0]
        if count < len(sets) and own.get(name) != usual:
            yield case.warning(
                f"{name} is {own.get(name, 'not set')} there, and {usual or 'not set'} elsewhere; processes that "
                "compile different programs wait for each other for ever",
                where=_environment(case),
                do=start_with("environment", {name: usual or own[name]}),
            )


def _options(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(COMPILED_IN)
        and not name.startswith(OWN)
        and not any(word in name for word in LOCAL_WORDS)
    }


def proxies(case: Case) -> Iterator[Finding]:
    """Find proxies through which connections of JAX and TensorFlow may be routed."""
    found = [name for name in case.facts.variables if name.lower() in PROXIES]
    if not found or not case.spread:
        return
    yield case.warning(
        f"{', '.join(found)} set: processes may look for each other through the proxy, and time out",
        where=_environment(case),
        do=start_with("environment", dict.fromkeys(found, "")),
    )


def _listed(case: Case, names: list[str]) -> str:
    shown = [f"{name}={case.facts.variables[name]}" for name in names[:2]]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(shown)}{more} {'is' if len(names) == 1 else 'are'}"


def _environment(case: Case) -> str:
    if case.examined.local:
        return "environment of this kernel"
    return f"environment that {case.examined.shell.strip()} gives"
