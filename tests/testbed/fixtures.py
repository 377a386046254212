"""Fixtures of the test bed, for a conftest to import.

Where the machine forbids test hosts, the tests that need them are skipped with the reason; where the
variable CI is set they fail instead, so that nothing passes there without having run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts, why_no_mpi, why_no_slurm
from tests.testbed.slurm import Slurm


def need(said: str | None) -> None:
    """Goes on when there is nothing to say, else skips, or fails in CI, with what is said."""
    if said is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{said} In CI these tests must run.", pytrace=False)
    pytest.skip(said)


@pytest.fixture(scope="module")
def hosts() -> Iterator[TestBed]:
    """Three hosts, h1 to h3, for the tests of one module; who breaks one mends it."""
    need(why_no_hosts())
    with TestBed(3) as bed:
        yield bed


@pytest.fixture(scope="module")
def slurm(hosts: TestBed) -> Iterator[Slurm]:
    """Slurm on the three hosts, for the tests of one module; jobs that one leaves are cancelled at the end."""
    need(why_no_slurm())
    with Slurm(hosts) as running:
        yield running


@pytest.fixture(scope="module")
def mpi_hosts(hosts: TestBed) -> TestBed:
    """The three hosts, where Open MPI is installed as well."""
    need(why_no_mpi())
    return hosts
