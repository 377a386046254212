"""Sessions of tests are written down in a folder of their own, not in that of whoever runs the tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

import pytest

STATE = "NBDIST_STATE"


def pytest_configure(config: pytest.Config) -> None:
    """Every process of the tests, and every kernel that one of them starts, has this folder."""
    os.environ[STATE] = tempfile.mkdtemp(prefix="nbdist-tests-")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell has it for what it runs in the background; tests that press Ctrl-C would hang.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing is left."""
    shutil.rmtree(os.environ.pop(STATE), ignore_errors=True)
