"""One thing that differs, and which processes have which version of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.contract.wire import encode

Versions = tuple[tuple[tuple[int, ...], str], ...]
"""Process ids and their common value as text; the value of the most processes first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A name or setting that differs, such as `w` or `jax_enable_x64`; `do` says how to go on, as a sentence."""

    about: str
    versions: Versions
    do: str


def grouped(values: Mapping[int, Any]) -> list[tuple[list[int], Any]]:
    """Return the process ids by equal values, plain ones or those of the contract, in the order of the ids."""
    groups: dict[str, tuple[list[int], Any]] = {}
    for process_id, value in sorted(values.items()):
        text = json.dumps(encode(value), sort_keys=True)
        groups.setdefault(text, ([], value))[0].append(process_id)
    return list(groups.values())


def ordered(versions: Iterable[tuple[Collection[int], str]]) -> Versions:
    """Sort: the version of the most processes first, then by the lowest process id."""
    found = [(tuple(sorted(ids)), text) for ids, text in versions if ids]
    return tuple(sorted(found, key=lambda version: (-len(version[0]), version[0][0])))


def difference(
    about: str, values: Mapping[int, Any], do: str, text: Callable[[Any], str] = str
) -> list[Difference]:
    """Return one entry where the values of processes are not all equal, else none."""
    groups = grouped(values)
    if len(groups) < 2:
        return []
    return [Difference(about, ordered((ids, text(value)) for ids, value in groups), do)]
