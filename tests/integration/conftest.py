"""Sessions and notebooks that several tests share, since each costs a start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from tests.integration.notebook import Notebook
from tests.testbed.fixtures import hosts, mpi_hosts, slurm

__all__ = ["fresh", "hosts", "mpi_hosts", "notebook", "renewed", "session", "slurm"]

START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel with nbdist loaded and two processes of two devices."""
    with Notebook(folder=tmp_path_factory.mktemp("notebook")) as found:
        found.good("%load_ext nbdist")
        found.good(START)
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Notebook]:
    """A kernel with nbdist loaded and no session, for tests that break things."""
    with Notebook(folder=tmp_path) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture(scope="module")
def kernel_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel with nbdist loaded, for `renewed`."""
    with Notebook(folder=tmp_path_factory.mktemp("kernel")) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture
def renewed(kernel_of_module: Notebook) -> Iterator[Notebook]:
    """A kernel that has no session, and may have had others: for tests of what a start does."""
    yield kernel_of_module
    kernel_of_module.run("%dist_shutdown")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """Two processes of two devices, from Python."""
    with nbdist.start(2, devices_per_process=2, platform="cpu") as found:
        yield found
