"""These tests run in the environment that has TensorFlow: `/path/to/it/bin/python -m pytest tests/tensorflow`."""

import os

# Read when TensorFlow and Keras are imported, here and in all processes that tests start.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
