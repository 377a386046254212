"""The summary of one array for the view: a text and a picture, from each process's part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist import summary
from nbdist.contract.calls.arrays import Summary
from nbdist.errors import ArrayError
from nbdist.quantities import processes_text


def shown_values(path: str, answers: Mapping[int, Summary]) -> dict[str, Any]:
    """Put together the processes' answers.

    Returns:
      `text`, and `picture`, None where there is nothing to draw.

    Raises:
      ArrayError: There is no array under this path, or it is still being computed, or it has no numbers.
    """
    states = {process_id: answer.state for process_id, answer in answers.items()}
    computing = [p for p, state in states.items() if state == "computing"]
    if computing:
        raise ArrayError(f"{path} is still being computed on {processes_text(computing)}.")
    there = {p: answer for p, answer in answers.items() if answer.state == "shown"}
    if not there:
        raise ArrayError(f"There is no array {path} any more.")
    first = min(there)
    # An array that one process has for itself is no part of another process's array.
    alone = there[first].whole
    shown = [there[first]] if alone else [one for one in there.values() if not one.whole]
    parts = [one.part for one in shown if one.part is not None]
    if len(parts) < len(shown):
        raise ArrayError(f"{path} has no values that could be shown.")
    if any(summary.facts(part) != summary.facts(parts[0]) for part in parts):
        raise ArrayError(f"{path} is not the same array on {processes_text(there)}.")
    text = summary.text(parts)
    if alone and len(answers) > 1:
        text = f"of process {first}; others have their own\n{text}"
    places = [one.places for one in shown if one.places is not None]
    picture = summary.picture(places) if len(places) == len(shown) else None
    return {"text": text, "picture": picture}
