"""These tests run in the environment that has TensorFlow: `/path/to/it/bin/python -m pytest tests/tensorflow`."""

import os

from tests.integration.conftest import fresh

__all__ = ["fresh"]

# For the plain processes and this one; kernels start without it.
os.environ["KERAS_BACKEND"] = "tensorflow"
