"""These tests run in the environment that has TensorFlow: `/path/to/it/bin/python -m pytest tests/tensorflow`."""

import os

# Read when TensorFlow and Keras are imported, here and in all processes that tests start.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Notebook]:
    """A kernel with nbdist loaded and no session."""
    with Notebook(folder=tmp_path) as found:
        found.good("%load_ext nbdist")
        yield found
