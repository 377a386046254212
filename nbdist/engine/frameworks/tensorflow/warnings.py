"""Filter of TensorFlow's messages that nobody needs to read; one of them is replaced by a sentence, said once.

TensorFlow's C++ writes to the process's standard error. A line begins with the level, the time and the source,
such as `W0000 00:00:1795178940.708603   21496 dataset.cc:997] …`. Times and thread ids differ, so the lines of
several processes are never equal, and would be shown for each process.
"""

from __future__ import annotations

import logging
import re
import sys

_LINE = rb"^%b\d{4} [\d:.]+ +\d+ %b:\d+\] %b.*\n?"
_ANY_SOURCE = rb"\S+"

INFORMATION = re.compile(_LINE % (b"I", _ANY_SOURCE, b""), re.M)
"""Messages on servers that started and tasks that connected: `%dist_init` has told the user already."""

CONTINUED = re.compile(
    rb"^(?:/job:\w+/replica:\d+/task:\d+|The error could be from a previous operation\. Restart .*)\n?",
    re.M,
)
"""The second line of a message."""

KNOWN = tuple(
    re.compile(_LINE % (level, source, text), re.M)
    for level, source, text in (
        # A machine without a GPU, on which none was asked for.
        (b"E", rb"cuda_platform\.cc", rb"failed call to cuInit"),
        # Caused by Keras' own way to repeat a data set.
        (b"W", rb"dataset\.cc", rb"Input of GeneratorDatasetOp"),
        # Keras reads a batch ahead to build the model; the cache is filled in the first epoch.
        (b"W", rb"cache_dataset_ops\.cc", rb"The calling iterator did not fully read the dataset"),
        # An interrupt has freed the process, and the cell's error says so.
        (b"[EW]", rb"\w+\.cc", rb".*interrupted by nbdist; run %dist_recover"),
        # The end of every data set (https://github.com/tensorflow/tensorflow/issues/62963).
        (b"[IW]", rb"local_rendezvous\.cc", rb".*OUT_OF_RANGE: End of sequence"),
    )
)

AUTO_SHARD = re.compile(
    rb"^[IW]\d{4} [\d:.]+ +\d+ auto_shard\.cc:\d+\] AUTO sharding policy will apply DATA .*\n?"
    # Many lines describe the node of the graph that reads no file.
    rb"(?:^(?!\w\d{4} [\d:.]+ ).*\n?)*",
    re.M,
)

AUTO_SHARD_SAID = (
    b"The data set is not read from files, so each worker reads all of it and keeps its share of the rows "
    b"(auto-shard policy DATA, which tf.data.Options().experimental_distribute.auto_shard_policy chooses without "
    b"this line).\n"
)


def follow_standard_error() -> None:
    """Make TensorFlow's Python logger write to the present `sys.stderr`.

    The logger has kept `sys.stderr` of the process that imported TensorFlow, which is closed since the fork: a
    warning would become "--- Logging error ---" and two stacks.
    """
    import tensorflow as tf

    for handler in tf.get_logger().handlers:
        if isinstance(handler, logging.StreamHandler):
            # `setStream` would flush the old stream.
            handler.stream = sys.stderr


class Chatter:
    """A filter that removes known messages; called with each new piece of standard error.

    Args:
      chief: Whether this process writes the sentence that is said once.
    """

    def __init__(self, *, chief: bool) -> None:
        self._chief = chief
        self._said = False

    def __call__(self, data: bytes) -> bytes:
        """Return `data` without the known messages."""
        data = AUTO_SHARD.sub(self._of_auto_shard, data)
        for pattern in (INFORMATION, CONTINUED, *KNOWN):
            data = pattern.sub(b"", data)
        return data

    def _of_auto_shard(self, match: re.Match[bytes]) -> bytes:
        if not self._chief or self._said:
            return b""
        self._said = True
        return AUTO_SHARD_SAID
