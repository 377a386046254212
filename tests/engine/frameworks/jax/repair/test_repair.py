"""A whole repair in a process without others: see `tests.engine.repaired`."""

import json
import subprocess
import sys

import pytest

from tests.engine.repaired import SITUATIONS


@pytest.fixture(scope="module")
def found():
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.repaired"],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_repair(found, name):
    assert found[name] is None, found[name]
