"""Encoder for successive messages of one sender, most of which repeat the one before.

Source: imports nothing outside the standard library, since engines import it too.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nbdist.contract.wire import Plain, encode
from nbdist.errors import WireError


class Encoder:
    """Encoder like `nbdist.contract.wire.encode`, for the messages of one sender; used from one thread.

    In a field that is a tuple, an item that is the same object as in the last message with that field is not
    encoded again. The returned data share such parts, and must not be changed.
    """

    def __init__(self) -> None:
        # By id, which no other object can have as long as the item is kept beside it.
        self._known: dict[str, dict[int, tuple[object, Plain]]] = {}

    def encode(self, message: Any) -> Plain:
        """Turn a message, a dataclass of `nbdist.contract`, into plain data.

        Raises:
          WireError: The message holds something JSON has no form for; the text names the path to it.
        """
        try:
            return {one.name: self._field(one.name, message) for one in fields(message)}
        except WireError:
            return encode(message)  # raises as well, and names the path from the message on

    def _field(self, name: str, message: Any) -> Plain:
        value = getattr(message, name)
        if type(value) is not tuple:
            return encode(value)
        before, now = self._known.get(name, {}), {}
        for item in value:
            now[id(item)] = before.get(id(item)) or (item, encode(item))
        self._known[name] = now
        return [now[id(item)][1] for item in value]
