"""Sessions of tests are written down in a folder of their own, not in that of whoever runs the tests."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

STATE = "NBDIST_STATE"


def pytest_configure(config: pytest.Config) -> None:
    """Every process of the tests, and every kernel that one of them starts, has this folder."""
    os.environ[STATE] = tempfile.mkdtemp(prefix="nbdist-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing is left."""
    shutil.rmtree(os.environ.pop(STATE), ignore_errors=True)
