"""What an engine answers to a request, read without running anything of it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from nbdist.errors import WireError
from nbdist.spelling import command

Buffer = bytes | memoryview

JSON = b"{"
"""How the first buffer of an answer of ours begins; no pickle does (its first byte is 0x80)."""


def read_reply(buffers: Sequence[Buffer]) -> Any:
    """The answer of an engine.

    Args:
      buffers: Of ipyparallel's `apply_reply`: what `nbdist.engine.kernel.calls.Call` has sent, or a pickle of
        plain data, as an engine without nbdist, or with an earlier one, answers when it is asked who it is.

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
    """Reads numbers, texts, bytes and containers. What a pickle calls it finds by name; here nothing is found."""

    def find_class(self, module: str, name: str) -> Any:
        raise WireError(
            f"An engine's answer wants to call {module}.{name} in this notebook's kernel; it was refused, and "
            f"nothing of it was executed. Stop the session ({command('shutdown')}): its host may be in other "
            "hands."
        )
