"""What is in one array, for the view: a text and a picture, out of what each process has of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist import summary
from nbdist.errors import ArrayError
from nbdist.quantities import processes_text


def shown_values(path: str, answers: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Puts together what processes have answered.

    Args:
      path: Of the array.
      answers: What each has, as `nbdist.engine.frameworks.jax.summary.at_path` answers.

    Returns:
      `text`, and `picture`, None where there is nothing to draw.

    Raises:
      ArrayError: There is no array under this path, or it is still being computed, or it has no numbers.
    """
    states = {process_id: answer["state"] for process_id, answer in answers.items()}
    computing = [p for p, state in states.items() if state == "computing"]
    if computing:
        raise ArrayError(f"{path} is still being computed on {processes_text(computing)}.")
    there = {p: answer for p, answer in answers.items() if answer["state"] == "shown"}
    if not there:
        raise ArrayError(f"There is no array {path} any more.")
    first = min(there)
    # What one process has for itself is no part of what another has.
    alone = there[first]["whole"]
    shown = [there[first]] if alone else [one for one in there.values() if not one["whole"]]
    parts = [one["part"] for one in shown]
    if any(part is None for part in parts):
        raise ArrayError(f"{path} has no values that could be shown.")
    if any(part[fact] != parts[0][fact] for part in parts for fact in summary.FACTS):
        raise ArrayError(f"{path} is not the same array on {processes_text(there)}.")
    text = summary.text(parts)
    if alone and len(answers) > 1:
        text = f"of process {first}; others have their own\n{text}"
    places = [one["places"] for one in shown]
    return {"text": text, "picture": summary.picture(places) if all(places) else None}
