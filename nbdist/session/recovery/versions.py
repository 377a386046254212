"""Whether the pieces of an array on different processes belong together: pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LOST_MEANS = "not computed on all processes: using it is an error until it is assigned again; all else is kept"
"""What is said below the names of arrays that are lost."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Arrays whose pieces do not belong together: by path, and by origin those that no path leads to."""

    paths: tuple[str, ...] = ()
    unnamed: tuple[tuple[Any, ...], ...] = ()


def common_serial(states: Iterable[Mapping[str, Any]]) -> int:
    """The last program up to which all processes have sent the same ones.

    Args:
      states: By process; `serial` is that of its last program, `trail` the checksums of those since all were in
        step, the newest alone where there are many.
    """
    every = list(states)
    trails = [
        dict(
            zip(range(s["serial"] - len(s["trail"]) + 1, s["serial"] + 1), s["trail"], strict=True)
        )
        for s in every
    ]
    common = max((s["serial"] - s["programs"] for s in every), default=0)
    for serial in range(min((s["serial"] for s in every), default=0), common, -1):
        checksums = {trail.get(serial) for trail in trails}
        if len(checksums) == 1 and None not in checksums:
            return int(serial)
    return int(common)


def disagreeing(answers: Mapping[int, Mapping[str, Any]], *, common: int | None = None) -> Mixed:
    """Arrays of which processes hold pieces that different programs computed.

    A path that one process has and another has not is none: using it there is an error by itself. Of arrays that
    no path leads to, all processes must have as many of each origin.

    Args:
      answers: By process id, as `nbdist.engine.frameworks.jax.versions.versions` gives them.
      common: What was computed by a later program was computed by programs that did not belong together; None:
        all belong together.
    """

    def late(answer: Mapping[str, Any], origin: Sequence[Any]) -> bool:
        return common is not None and origin[0] == answer["generation"] and origin[1] > common

    found: dict[str, set[Any]] = defaultdict(set)
    counts: dict[tuple[Any, ...], dict[int, int]] = defaultdict(dict)
    wrong, unnamed = set(), set()
    for process_id, answer in answers.items():
        for path, origin in answer["versions"].items():
            found[path].add(None if origin is None else tuple(origin))
            if origin is None or late(answer, origin):
                wrong.add(path)
        for origin, count in answer["unnamed"]:
            counts[tuple(origin)][process_id] = count
            if late(answer, origin):
                unnamed.add(tuple(origin))
    wrong |= {path for path, seen in found.items() if len(seen) > 1}
    unnamed |= {
        origin
        for origin, by_process in counts.items()
        if len({by_process.get(process_id, 0) for process_id in answers}) > 1
    }
    return Mixed(tuple(sorted(wrong)), tuple(sorted(unnamed)))
