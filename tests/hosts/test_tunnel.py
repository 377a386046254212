"""Hosts that cannot connect to the notebook's machine come through the ssh connections to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import nbdist
from nbdist.errors import HostError
from tests.hosts.left import LISTENING, Left, sockets
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for


@pytest.fixture
def blocked(hosts: TestBed) -> Iterator[TestBed]:
    """Between this machine and the hosts there is ssh and nothing else; hosts reach each other."""
    for i in (1, 2):
        hosts.only_ssh_with_this_machine(i)
    yield hosts
    for i in (1, 2):
        hosts.delay(i, 0)


def test_hosts_that_reach_only_each_other_compute_through_a_tunnel(
    blocked: TestBed, left: Left
) -> None:
    config = str(blocked.ssh_config)
    with pytest.raises(HostError, match=r"(?s)cannot connect to the notebook's.*tunnel=True"):
        nbdist.start(hosts="h1:1,h2:1", ssh_config=config)
    with nbdist.start(hosts="h1:1,h2:1", ssh_config=config, tunnel=True) as session:
        session.run(COLLECTIVE)
        session.run("import socket\nwhere = socket.gethostname()\nsum_of_all = float(total(x))")
        assert [session.pull("where", on=str(p)) for p in (0, 1)] == ["h1", "h2"]
        assert [session.pull("sum_of_all", on=str(p)) for p in (0, 1)] == [24.0, 24.0]
        session.push({"sent": np.arange(1 << 20)})
        assert np.array_equal(session.pull("sent"), np.arange(1 << 20))
        # A report from before the end of a call may come after its reply.
        wait_for(lambda: all(p.state == "idle" for p in session.snapshot().processes))
        session.restart()
        session.run("x = 1")
        assert session.pull("x") == 1
        for i in (1, 2):
            listening = {own.rpartition(":")[0] for own, _ in sockets(blocked, i, LISTENING)}
            assert listening == {"127.0.0.1", blocked.address(i)}  # nothing is open to others
    left.nothing()


def test_a_port_that_sshd_does_not_forward_is_named_with_what_to_type(
    hosts: TestBed, left: Left
) -> None:
    path = hosts.folder / "h3" / "sshd_config"
    before = path.read_text()
    path.write_text(f"AllowTcpForwarding no\n{before}")
    try:
        hosts.crash(3)
        hosts.boot(3)
        with pytest.raises(HostError, match=r"(?s)ssh does not forward ports.*AllowTcpForwarding"):
            nbdist.start(hosts="h3:1", ssh_config=str(hosts.ssh_config), tunnel=True)
    finally:
        path.write_text(before)
        hosts.crash(3)
        hosts.boot(3)
    left.nothing()
