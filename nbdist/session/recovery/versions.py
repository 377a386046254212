"""Whether the pieces of an array on different processes belong together: pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nbdist.contract.calls.stepping import Origin, Trail, Versions

LOST_MEANS = "not computed on all processes: using it is an error until it is assigned again; all else is kept"
"""What is said below the names of arrays that are lost."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Arrays whose pieces do not belong together: by path, and by origin those that no path leads to."""

    paths: tuple[str, ...] = ()
    unnamed: tuple[Origin, ...] = ()


def common_serial(states: Iterable[Trail]) -> int:
    """The last program up to which all processes have sent the same ones.

    Args:
      states: Of all processes; a `trail` has the newest programs alone where there are many.
    """
    every = list(states)
    trails = [
        dict(zip(range(s.sent.serial - len(s.trail) + 1, s.sent.serial + 1), s.trail, strict=True))
        for s in every
    ]
    common = max((s.sent.serial - s.sent.programs for s in every), default=0)
    for serial in range(min((s.sent.serial for s in every), default=0), common, -1):
        checksums = {trail.get(serial) for trail in trails}
        if len(checksums) == 1 and None not in checksums:
            return serial
    return common


def crossed(states: Collection[Trail]) -> bool:
    """Whether processes have gone on after they had sent different programs, which may have been paired.

    Where one has only sent fewer, nothing was there for what it has not sent.
    """
    return any(state.parts for state in states) or common_serial(states) < min(
        (state.sent.serial for state in states), default=0
    )


def disagreeing(answers: Mapping[int, Versions], *, common: int | None = None) -> Mixed:
    """Arrays of which processes hold pieces that different programs computed.

    A path that one process has and another has not is none: using it there is an error by itself. Of arrays that
    no path leads to, all processes must have as many of each origin.

    Args:
      answers: By process id.
      common: What was computed by a later program was computed by programs that did not belong together; None:
        all belong together.
    """

    def late(answer: Versions, origin: Origin) -> bool:
        return common is not None and origin[0] == answer.generation and origin[1] > common

    found: dict[str, set[Origin | None]] = defaultdict(set)
    counts: dict[Origin, dict[int, int]] = defaultdict(dict)
    wrong, unnamed = set(), set()
    for process_id, answer in answers.items():
        for path, origin in answer.versions.items():
            found[path].add(origin)
            if origin is None or late(answer, origin):
                wrong.add(path)
        for origin, count in answer.unnamed:
            counts[origin][process_id] = count
            if late(answer, origin):
                unnamed.add(origin)
    wrong |= {path for path, seen in found.items() if len(seen) > 1}
    unnamed |= {
        origin
        for origin, by_process in counts.items()
        if len({by_process.get(process_id, 0) for process_id in answers}) > 1
    }
    return Mixed(tuple(sorted(wrong)), tuple(sorted(unnamed)))
