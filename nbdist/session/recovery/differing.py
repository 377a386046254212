"""Comparison of what processes have sent to their devices: where it differs, who has sent what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from nbdist.contract.calls.stepping import Labels, Trail
from nbdist.contract.sent import Sent
from nbdist.quantities import processes_text, ranges_text

T = TypeVar("T")

OWN = "() "
"""Marks a function that a cell has defined; see `nbdist.engine.frameworks.jax.step.dispatched`."""

MOST_NAMED = 3
"""The most functions that are named where processes have sent different ones."""


def differing(states: Mapping[int, Sent]) -> str | None:
    """Return a text if processes have sent different numbers of programs; None if no difference is known."""
    if not all(state.counted for state in states.values()):
        return None
    if len({state.place for state in states.values()}) == 1:
        return None
    if len({state.generation for state in states.values()}) > 1:
        return "the processes were not found to be in step by the same proof"
    # Counted from where the first of them was last known to be in step.
    begun = min(state.serial - state.programs for state in states.values())
    counts = _by_value({p: state.serial - begun for p, state in states.items()})
    said = ", ".join(
        f"{processes_text(ids)} sent {number or 'none'}" for number, ids in sorted(counts.items())
    )
    return f"the processes have sent different numbers of programs to their devices: {said}"


def differing_parts(states: Mapping[int, Trail]) -> str | None:
    """Return a text if processes have sent different programs to devices of some processes alone, else None."""
    for devices in sorted(set().union(*(state.parts for state in states.values()))):
        members = {int(p) for p in devices.partition("/")[2].split(",")} & states.keys()
        # Nothing is known of a process that was in another cell since then.
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
    """Return the functions that processes have not sent equally often, as the end of a sentence."""
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
    """Return the last `count` programs alone."""
    start = max(0, len(one.labels) - count)
    return Labels(labels=one.labels[start:], kinds=one.kinds[start:], given=one.given[start:])


def differing_labels(answers: Mapping[int, Labels]) -> str | None:
    """Return which programs took each other's place where all have sent equally many; None where none did.

    Only functions that cells have defined are compared: libraries send helpers of theirs in any order. Where all
    have sent the same function, two more things are compared: its collectives, on the processes on which it ran
    for the first time, and its argument arrays that no program had computed.
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
    """Return `array 10 that the cell made, float32[16]` for an argument of a program."""
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
    """Return the processes that have each value, that of the lowest process first, however they answer."""
    found: dict[T, list[int]] = {}
    for process_id, value in sorted(values.items(), key=lambda item: item[0]):
        found.setdefault(value, []).append(process_id)
    return found


def _name(label: str) -> str:
    return label.partition(" ")[0].removesuffix("()")
