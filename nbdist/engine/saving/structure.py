"""The containers of a variable as plain data, from which they can be made again without running user code."""

from __future__ import annotations

from typing import Any

KEYS = (str, int, bool)


def plain(value: Any) -> Any:
    """Return dicts, lists, tuples and None as plain data.

    Args:
      value: A variable with the number of each part in place of the part.

    Raises:
      TypeError: A container is of another class, which nobody else can make, or a key is no text or number.
    """
    if value is None:
        return {"none": True}
    if type(value) is int:
        return value
    if type(value) is dict:
        if any(type(key) not in KEYS for key in value):
            raise TypeError("a dict has a key that is no text or number")
        return {"dict": [[key, plain(child)] for key, child in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [plain(child) for child in value]}
    raise TypeError(f"it has a {type(value).__qualname__}")


def made(data: Any) -> Any:
    """Return the containers that `plain` has described.

    Raises:
      TypeError: The data is no description.
    """
    match data:
        case int():
            return data
        case {"none": True}:
            return None
        case {"dict": [*pairs]}:
            return {key: made(child) for key, child in pairs}
        case {"list": [*children]}:
            return [made(child) for child in children]
        case {"tuple": [*children]}:
            return tuple(made(child) for child in children)
    raise TypeError(f"{data!r} describes no container")
