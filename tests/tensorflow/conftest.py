"""These tests run in the environment that has TensorFlow: `/path/to/it/bin/python -m pytest tests/tensorflow`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook

# For the plain processes and this one; kernels start without it.
os.environ["KERAS_BACKEND"] = "tensorflow"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Notebook]:
    """A kernel with nbdist loaded and no session."""
    with Notebook(folder=tmp_path) as found:
        found.good("%load_ext nbdist")
        yield found
