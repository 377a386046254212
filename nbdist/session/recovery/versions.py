"""Whether the pieces of an array on different processes belong together: pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nbdist.contract.calls.stepping import Origin, Trail, Versions
from nbdist.quantities import names_text, processes_text


def lost_lines(
    lost: Collection[str],
    *,
    in_part: Mapping[str, str] = MappingProxyType({}),
    ended: Collection[int] = (),
    unread: Collection[str] = (),
    whole: bool = True,
) -> list[str]:
    """Lines below the names of arrays that are lost: why they are, and what that means.

    Args:
      lost: Their paths; without any there are no lines.
      in_part: Those of which a part was on processes that have ended, with their types, empty where not known.
      ended: These processes.
      unread: Those whose values a process could not read; their reasons are said elsewhere.
      whole: Whether all else is as it was.
    """
    if not lost:
        return []
    parted = [f"{p} ({in_part[p]})" if in_part[p] else p for p in lost if p in in_part]
    mixed = [p for p in lost if p not in in_part and p not in unread]
    why = []
    if parted:
        part, was = ("a part", "was") if len(parted) == 1 else ("parts", "were")
        why.append(
            f"{part} of {names_text(parted)} {was} only on {processes_text(ended)}, which "
            f"{'has' if len(ended) == 1 else 'have'} ended"
        )
    if mixed:
        those = "" if len(mixed) == len(lost) else f": {names_text(mixed)}"
        why.append(f"not computed on all processes{those}")
    kept = "; all else is kept" if whole else ""
    means = f"using it is an error until it is assigned again{kept}"
    if len(lost) in (len(parted), len(mixed)):
        return [f"   {why[0]}: {means}"]
    return [f"   {text}" for text in (*why, means)]


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
