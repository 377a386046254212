"""The containers of a variable as plain data, from which they can be made again without running anybody's code."""

from __future__ import annotations

from typing import Any

KEYS = (str, int, bool)


def plain(value: Any) -> Any:
    """Dicts, lists, tuples and None as plain data; numbers stand for the parts that they hold.

    Args:
      value: A variable with the number of each part in place of it.

    Raises:
      TypeError: It has a container of a class of its own: nobody else can say how to make one.
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
    """What `plain` has described.

    Raises:
      TypeError: It is no description.
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
