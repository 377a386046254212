"""Sessions and notebooks that several tests share, since each costs a start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from tests.integration.notebook import Notebook
from tests.testbed.fixtures import hosts, slurm

__all__ = ["fresh", "hosts", "notebook", "renewed", "session", "slurm"]

TWO = "-n 2 --devices-per-process 2 --platform cpu"
START = f"%dist_init {TWO}"
SETUP_SECONDS = 300.0
"""For the first cell of a file, which may import Keras on each process of a slow machine."""


@pytest.fixture(scope="module")
def notebook(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Notebook]:
    """A kernel with a session of the module's `OPTIONS` (of `TWO` without), in which its `SETUP` has run."""
    name = request.module.__name__.rpartition("_")[2]
    with Notebook(folder=tmp_path_factory.mktemp(name)) as found:
        found.good("%load_ext nbdist")
        found.good(f"%dist_init {getattr(request.module, 'OPTIONS', TWO)}")
        if setup := getattr(request.module, "SETUP", None):
            found.good(f"%%dist\n{setup}", timeout_s=SETUP_SECONDS)
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Notebook]:
    """A kernel with nbdist loaded and no session, for tests that break things."""
    with Notebook(folder=tmp_path) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """A kernel with nbdist loaded, for tests that start sessions in it one after the other."""
    with Notebook(folder=tmp_path_factory.mktemp("kernel")) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture
def renewed(kernel: Notebook) -> Iterator[Notebook]:
    """A kernel that has no session, and may have had others: for tests of what a start does."""
    yield kernel
    kernel.run("%dist_shutdown")


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Two processes of two devices, from Python, in which the module's `SETUP` has run, if it has one."""
    with nbdist.start(2, devices_per_process=2, platform="cpu") as found:
        if setup := getattr(request.module, "SETUP", None):
            found.run(setup)
        yield found
