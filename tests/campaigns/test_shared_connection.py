"""A host that is cut off, and that a shared connection leads to."""

from __future__ import annotations

from tests.hosts.left import Left
from tests.hosts.shared_connection import log_in, lost, start, wait_until
from tests.testbed.hosts import TestBed


def test_a_host_that_is_cut_off_is_given_up_and_left_clean_once_the_shared_connection_works_again(
    hosts: TestBed, left: Left
) -> None:
    with log_in(hosts) as shared, start(shared) as session:
        hosts.cut(1)
        try:
            wait_until(lambda: lost(session))
        finally:
            hosts.heal(1)
        wait_until(lambda: not hosts.processes(1))
        assert shared.answers()
    left.nothing()
