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


@pytest.hookimpl(trylast=True)  # of what `-k` and `-m` leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A part of the tests, where that is asked for; pytest counts the others as deselected.

    With `NBDIST_PART=1/2` the first, third, ... of the files that are asked for, with `2/2` the others; of fewer
    files than parts it is one of them.
    """
    part, parts = map(int, os.environ.get("NBDIST_PART", "1/1").split("/"))
    files = sorted({_file(item) for item in items})
    chosen = set(files[part - 1 :: parts] or files[(part - 1) % max(len(files), 1) :][:1])
    left_out = [item for item in items if _file(item) not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _file(item) in chosen]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
