"""Targets: how a person names the processes a cell runs on.

`0,2:4` counts as Python does (4 is left out); `host=h1` names all processes of a host; `-1` is the last;
`evaluator` and `chief` name TensorFlow's roles.
In brackets, `[0,1-2]`, both ends count: the form known from other notebook tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from nbdist.errors import TargetError

_BRACKETED = re.compile(r"\d+(-\d+)?")
_COUNTED = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(-?\d+))?")


def parse(
    text: str, hosts: Mapping[int, str], named: Mapping[str, Collection[int]] | None = None
) -> tuple[int, ...]:
    """The process ids that `text` names, ascending, each once.

    Args:
      text: `0,2:4`, `[0,1-2]`, `host=h1`, `evaluator`, or `all`.
      hosts: Host name of each process of the session, by process id.
      named: The processes that have a name together, such as those of one role.

    Raises:
      TargetError: A part that cannot be read, or that names no process.
    """
    text = text.strip()
    if text == "all":
        return tuple(sorted(hosts))
    if text.startswith("[") and text.endswith("]"):
        read = _bracketed
        text = text[1:-1]
    else:
        read = _counted
    found: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        if part.startswith("host="):
            found.update(_on_host(part, hosts))
        elif part.isalpha():
            found.update(_of_name(part, hosts, named or {}))
        else:
            found.update(read(part, hosts))
    return tuple(sorted(found))


def _of_name(
    part: str, hosts: Mapping[int, str], named: Mapping[str, Collection[int]]
) -> list[int]:
    ids = named.get(part, ()) or named.get(part.removesuffix("s"), ())
    if not ids:
        names = (
            f" Its roles are {', '.join(name for name, ids in named.items() if ids)}."
            if named
            else ""
        )
        raise TargetError(f"Cannot read target {part!r}. {_allowed(hosts)}{names}")
    return list(ids)


def _allowed(hosts: Mapping[int, str]) -> str:
    return (
        f"This session has processes 0 to {len(hosts) - 1}; "
        "write 0,2 or 0:2 (as in Python, without 2) or [0-2] (with 2) or host=NAME."
    )


def _on_host(part: str, hosts: Mapping[int, str]) -> list[int]:
    name = part.removeprefix("host=")
    found = [process_id for process_id, host in hosts.items() if host == name]
    if not found:
        names = ", ".join(sorted(set(hosts.values())))
        raise TargetError(f"No process runs on host {name!r}. Hosts of this session: {names}.")
    return found


def _bracketed(part: str, hosts: Mapping[int, str]) -> list[int]:
    if not _BRACKETED.fullmatch(part):
        raise TargetError(f"Cannot read target {part!r} in brackets. {_allowed(hosts)}")
    first, _, last = part.partition("-")
    return _known(part, range(int(first), int(last or first) + 1), hosts)


def _counted(part: str, hosts: Mapping[int, str]) -> list[int]:
    match = _COUNTED.fullmatch(part)
    if not match:
        raise TargetError(f"Cannot read target {part!r}. {_allowed(hosts)}")
    everyone = sorted(hosts)
    single, start, stop, step = match.groups()
    if single is not None:
        number = int(single)
        return _known(part, [number + len(everyone) if number < 0 else number], hosts)
    start, stop, step = (int(value) if value else None for value in (start, stop, step))
    if step == 0:
        raise TargetError(f"Target {part!r} has a step of 0. {_allowed(hosts)}")
    return _known(part, everyone[slice(start, stop, step)], hosts)


def _known(part: str, numbers: range | list[int], hosts: Mapping[int, str]) -> list[int]:
    unknown = [number for number in numbers if number not in hosts]
    if unknown or not numbers:
        raise TargetError(f"Target {part!r} names no process of this session. {_allowed(hosts)}")
    return list(numbers)
