"""An engine's answer to a request, read without running anything of it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from nbdist.errors import WireError
from nbdist.spelling import command

Buffer = bytes | memoryview

JSON = b"{"
"""The beginning of the first buffer of an answer of ours; no pickle has it (its first byte is 0x80)."""


def read_reply(buffers: Sequence[Buffer]) -> Any:
    """Return the answer of an engine.

    Args:
      buffers: The buffers of ipyparallel's `apply_reply`: those of `nbdist.engine.kernel.calls.Call`, or a pickle
        of plain data, which an engine without nbdist, or with an earlier one, answers when asked who it is.

    Returns:
      The JSON, as text, and the buffers behind it; or the plain data.

    Raises:
      WireError: It is neither. Nothing of it was executed.
    """
    if not buffers:
        raise WireError("An engine's answer is empty.")
    first = bytes(buffers[0])
    if first.startswith(JSON):
        try:
            return [first.decode(), *buffers[1:]]
        except UnicodeDecodeError as error:
            raise WireError(f"An engine's answer is no text: {error}.") from error
    try:
        return _Plain(io.BytesIO(first)).load()
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"An engine's answer cannot be read: {error}.") from error


class _Plain(pickle.Unpickler):
    """Unpickler of numbers, texts, bytes and containers only: a pickle cannot name anything to call."""

    def find_class(self, module: str, name: str) -> Any:
        raise WireError(
            f"An engine's answer wants to call {module}.{name} in this notebook's kernel; it was refused, and "
            f"nothing of it was executed. Stop the session ({command('shutdown')}): its host may be in other "
            "hands."
        )
