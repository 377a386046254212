"""Hosts for all modules of this folder; what their sessions leave is told from what others leave."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.left import Left
from tests.testbed.fixtures import hosts, mpi_hosts, slurm
from tests.testbed.hosts import TestBed

__all__ = ["gone", "hosts", "left", "mpi_hosts", "slurm", "temporary"]


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for temporary files that only the sessions of one module use."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        yield folder


@pytest.fixture(scope="module")
def left(hosts: TestBed, temporary: Path) -> Left:
    """What the sessions of one module have left."""
    return Left(hosts, temporary)


@pytest.fixture
def gone(left: Left) -> Iterator[None]:
    """After the test there is no process and no file of it on any host."""
    yield
    left.nothing()
