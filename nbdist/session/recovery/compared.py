"""Comparison of what processes have sent to their devices, and of the arrays whose pieces do not belong together.

All functions are pure: they use what each process has reported, and no collective. After a cell that succeeded,
the comparison replaces a proof. If processes have sent different programs, it names which process has sent what.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nbdist.contract.calls.stepping import Labels, Origin, Sent, Trail, Versions
from nbdist.contract.iopub import CellStep
from nbdist.notation import processes_text, ranges_text

ProgramNumber = tuple[int, int]
"""A sent program: the number of the back end, and the serial of the program there."""


def have_sent_the_same(steps: Mapping[int, CellStep], everyone: Collection[int]) -> bool:
    """Return whether all processes have sent the same programs; a process without a report has sent none.

    The result is False after programs on the devices of only some processes: then only a proof can tell.

    Args:
      steps: The processes' reports at the end of a cell. Reports of processes that took part in a proof are not
        compared.
      everyone: All processes that take part in collectives.
    """
    said = [step.sent for step in steps.values() if step.compared]
    if not said:
        return True
    facts = {(s.place, s.names, s.kinds) for s in said}
    complete = len(said) == len(steps) and steps.keys() >= set(everyone)
    return complete and len(facts) == 1 and not any(s.parts for s in said)


def common_program(steps: Mapping[int, CellStep]) -> ProgramNumber | None:
    """Return the program after which processes that sent the same are in step; None if nothing was compared."""
    return next((step.sent.place for step in steps.values() if step.compared), None)


def programs_since(sent: Sent, in_step: ProgramNumber | None) -> int:
    """Return how many programs a process has sent since all were in step.

    Args:
      sent: The process's own count, from the last proof on.
      in_step: The program after which all were in step, as a later comparison has shown.
    """
    if in_step is None or sent.generation != in_step[0]:
        return sent.programs
    return max(0, min(sent.programs, sent.serial - in_step[1]))


T = TypeVar("T")

OWN = "() "
"""The mark, in a label, of a function that a cell has defined; see `label` in
`nbdist.engine.frameworks.jax.step.dispatched`."""

MOST_NAMED = 3
"""The most functions, shapes or collectives that are named in one list."""


def differing(states: Mapping[int, Sent]) -> str | None:
    """Return a text if processes have sent different numbers of programs; None if no difference is known."""
    if not all(state.counted for state in states.values()):
        return None
    if len({state.place for state in states.values()}) == 1:
        return None
    if len({state.generation for state in states.values()}) > 1:
        return "the processes were not found to be in step by the same proof"
    # Programs are counted from the earliest one after which a process was known to be in step.
    begun = min(state.serial - state.programs for state in states.values())
    counts = _by_value({p: state.serial - begun for p, state in states.items()})
    said = ", ".join(
        f"{processes_text(ids)} sent {number or 'none'}" for number, ids in sorted(counts.items())
    )
    return f"the processes have sent different numbers of programs to their devices: {said}"


def differing_parts(states: Mapping[int, Trail]) -> str | None:
    """Return a text if processes have sent different programs to the devices of only some processes, else None."""
    for devices in sorted(set().union(*(state.parts for state in states.values()))):
        members = {int(p) for p in devices.partition("/")[2].split(",")} & states.keys()
        # Counts from different cells cannot be compared.
        if len({states[p].run for p in members}) > 1:
            continue
        sent = _by_value({p: states[p].parts.get(devices, (0, 0)) for p in members})
        if len(sent) > 1:
            said = ", ".join(
                f"{processes_text(ids)} sent {count or 'none'}" for (count, _), ids in sent.items()
            )
            even = len({count for count, _ in sent}) == 1
            return (
                f"the processes have sent different {'programs' if even else 'numbers of programs'} to the "
                f"devices of {processes_text(members)} alone: {said}"
            )
    return None


def which_differ(answers: Mapping[int, Labels]) -> str:
    """Return the functions that processes have sent unequally often, as the end of a sentence."""
    sent = {p: Counter(map(_name, answer.labels)) for p, answer in answers.items()}
    every = {
        name: _by_value({p: counts[name] for p, counts in sent.items()})
        for name in sorted(set().union(*sent.values()))
    }
    uneven = {name: times for name, times in every.items() if len(times) > 1}
    said = []
    for name, times in list(uneven.items())[:MOST_NAMED]:
        groups = (f"{n} on {processes_text(ids)}" for n, ids in sorted(times.items()))
        said.append(f"{name}: {', '.join(groups)}")
    more = f"; {len(uneven) - MOST_NAMED} more" if len(uneven) > MOST_NAMED else ""
    return f" ({'; '.join(said)}{more})" if said else ""


def newest(one: Labels, count: int) -> Labels:
    """Return only the labels of the last `count` programs."""
    start = max(0, len(one.labels) - count)
    return Labels(labels=one.labels[start:], kinds=one.kinds[start:], given=one.given[start:])


def differing_labels(answers: Mapping[int, Labels]) -> str | None:
    """Return a text about the first program that differs if all have sent equally many; None if none differs.

    Only functions that cells have defined are compared, since libraries send helper programs in any order. If all
    have sent the same function, its collectives are compared on the processes that ran it for the first time, and
    so are its argument arrays that no program has computed.
    """
    count = min(len(answer.labels) for answer in answers.values())
    for back in range(count, 0, -1):
        at = {p: answer.labels[-back] for p, answer in answers.items()}
        groups = _by_value({p: label for p, label in at.items() if OWN in label})
        if len(groups) > 1:
            said = ", ".join(
                f"{processes_text(ids)} sent {label.partition(' ')[0]}"
                for label, ids in groups.items()
            )
            return (
                "the processes have sent different programs to their devices, although equally many: at one "
                f"place {said}"
            )
        if len(set(at.values())) > 1:
            continue
        name = at[min(at)].partition(" ")[0]
        given = _by_value({p: answer.given[-back] for p, answer in answers.items()})
        if len(given) > 1:
            said = ", ".join(
                f"{_given_text(one)} on {processes_text(ids)}" for one, ids in given.items()
            )
            return f"the processes have computed {name} of different arrays: {said}"
        kinds = _by_value(
            {p: kind for p, answer in answers.items() if (kind := answer.kinds[-back]) is not None}
        )
        if len(kinds) > 1:
            said = ", ".join(
                f"{_collectives_text(kind)} on {processes_text(ids)}" for kind, ids in kinds.items()
            )
            return f"the processes have compiled {name} to different collectives: {said}"
    return None


def _given_text(given: str) -> str:
    """Return `array 10 that the cell made, float32[16],` for the arrays that a program was given."""
    _, _, text = given.partition(": ")
    parts = text.split()
    numbers, shapes = [p for p in parts if p.isdigit()], [p for p in parts if not p.isdigit()]
    more = f" and {len(shapes) - MOST_NAMED} more" if len(shapes) > MOST_NAMED else ""
    said = ", ".join(shapes[:MOST_NAMED]) + more
    if not numbers:
        return said or "none that the cell made"
    which = f"{'array' if len(numbers) == 1 else 'arrays'} {ranges_text(list(map(int, numbers)))}"
    return f"{which} that the cell made, {said},"


def _collectives_text(kind: str) -> str:
    """Return a program's collectives by their names and shapes, such as `all-reduce(add) f32[]`."""
    found = [re.split(" [a-z_]+=", line)[0] for line in kind.splitlines()]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (", ".join(found[:MOST_NAMED]) or "none") + more


def _by_value(values: Mapping[int, T]) -> dict[T, list[int]]:
    """Return the processes that have each value, in order of the lowest process id."""
    found: dict[T, list[int]] = {}
    for process_id, value in sorted(values.items(), key=lambda item: item[0]):
        found.setdefault(value, []).append(process_id)
    return found


def _name(label: str) -> str:
    return label.partition(" ")[0].removesuffix("()")


@dataclass(frozen=True, slots=True)
class Mixed:
    """Arrays whose pieces do not belong together: by path, or by origin if no path leads to them."""

    paths: tuple[str, ...] = ()
    unnamed: tuple[Origin, ...] = ()


def common_serial(states: Iterable[Trail]) -> int:
    """Return the serial of the last program up to which all processes have sent the same programs.

    Args:
      states: The reports of all processes; a `trail` has only the newest programs if there are many.
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
    """Return whether processes went on after they had sent different programs, which may then have been paired.

    If a process has merely sent fewer programs, there was nothing with which the missing ones could pair.
    """
    return any(state.parts for state in states) or common_serial(states) < min(
        (state.sent.serial for state in states), default=0
    )


def disagreeing(answers: Mapping[int, Versions], *, common: int | None = None) -> Mixed:
    """Return the arrays of which processes hold pieces that different programs computed.

    A path that only some processes have does not count, since using it elsewhere is an error anyway. Of arrays
    that no path leads to, all processes must have equally many of each origin.

    Args:
      answers: The origins that each process has reported, by process id.
      common: The serial of the last program that all have sent, since results of later ones do not belong
        together. None: there are no later programs.
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
