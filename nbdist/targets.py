"""Targets: how a person names the processes a cell runs on.

`0,2:4` counts as Python does (4 is left out), `0,2-4` with both ends; `host=h1` names all processes of a host;
`-1` is the last; `evaluator` and `chief` name TensorFlow's roles.
In brackets, `[0,1-2]`, both ends count: the form known from other notebook tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from nbdist.errors import TargetError
from nbdist.ranges import read_range

_DASHED = re.compile(r"[0-9]+-")
_COUNTED = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(-?\d+))?")


def parse(
    text: str, hosts: Mapping[int, str], named: Mapping[str, Collection[int]] | None = None
) -> tuple[int, ...]:
    """The process ids that `text` names, ascending, each once.

    Args:
      text: `0,2:4`, `0-3,5`, `[0,1-2]`, `host=h1`, `evaluator`, or `all`.
      hosts: Host name of each process of the session, by process id.
      named: The processes that have a name together, such as those of one role.

    Raises:
      TargetError: A part that cannot be read, or that names no process.
    """
    text = text.strip()
    if text == "all":
        return tuple(sorted(hosts))
    bracketed = text.startswith("[") and text.endswith("]")
    if bracketed:
        text = text[1:-1]
    found: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        if part.startswith("host="):
            found.update(_on_host(part, hosts))
        elif part.isalpha():
            found.update(_of_name(part, hosts, named or {}))
        elif bracketed or _DASHED.match(part):
            found.update(_with_both_ends(part, hosts, " in brackets" if bracketed else ""))
        else:
            found.update(_counted(part, hosts))
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
        "write 0,2 or 0:2 (as in Python, without 2) or 0-2 or [0-2] (with 2) or host=NAME."
    )


def _on_host(part: str, hosts: Mapping[int, str]) -> list[int]:
    name = part.removeprefix("host=")
    found = [process_id for process_id, host in hosts.items() if host == name]
    if not found:
        names = ", ".join(sorted(set(hosts.values())))
        raise TargetError(f"No process runs on host {name!r}. Hosts of this session: {names}.")
    return found


def _with_both_ends(part: str, hosts: Mapping[int, str], where: str) -> list[int]:
    try:
        numbers = read_range(part).numbers
    except ValueError as error:
        raise TargetError(
            f"Cannot read target {part!r}{where}: {error} {_allowed(hosts)}"
        ) from None
    return _known(part, numbers, hosts)


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
    # One that is unknown ends the look: a range may be as long as a person can type.
    if not numbers or any(number not in hosts for number in numbers):
        raise TargetError(f"Target {part!r} names no process of this session. {_allowed(hosts)}")
    return list(numbers)
