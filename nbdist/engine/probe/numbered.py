"""Names that have, on each process, the number of that process: no other process can tell what they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbered(namespace: Mapping[str, Any], number: int) -> tuple[str, ...]:
    """Names whose value is this number, as code has it that asks for the number of its process.

    Args:
      namespace: All that cells see; it may change meanwhile.
      number: Of the process.
    """
    return tuple(
        name
        for name, value in [*namespace.items()]
        if type(value) is int and value == number and not name.startswith("_")
    )
