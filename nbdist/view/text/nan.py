"""NaN and infinite values of a tree of arrays, leaf by leaf and piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.contract.calls.arrays import ArrayNan, NanCounts
from nbdist.quantities import array_type_text, count_text, names_text, not_looked_at
from nbdist.view.text.table import columns


def nan_text(expression: str, answers: Mapping[int, NanCounts]) -> str:
    """A table of the arrays that have NaN or infinite values, each followed by the pieces they are in.

    Args:
      expression: What was looked at.
      answers: What each process has counted in its own pieces.
    """
    arrays: dict[str, list[tuple[int, ArrayNan]]] = {}
    for process_id, answer in sorted(answers.items()):
        for array in answer.arrays:
            arrays.setdefault(array.path, []).append((process_id, array))
    counted = max(answer.looked for answer in answers.values())
    omitted = max(answer.omitted for answer in answers.values())
    closed = max(answer.closed for answer in answers.values())
    rest = not_looked_at(omitted, closed)
    if not arrays and not counted:
        return (
            f"{expression} has no array that can be counted; {rest}"
            if rest
            else f"{expression} holds no arrays"
        )
    rows, unknown = [], []
    for path, everywhere in arrays.items():
        if any(array.pieces is None for _, array in everywhere):
            unknown.append(path)
            continue
        rows += _rows(path, everywhere)
    looked = count_text(counted, "array")
    lines = (
        columns([("array", "type", "NaN", "Inf"), *rows], right=(2, 3))
        if rows
        else [f"no NaN or Inf in {looked} of {expression}"]
    )
    if unknown:
        lines.append(f"without values, and not counted: {names_text(unknown)}")
    if rest:
        lines.append(rest)
    return "\n".join(lines)


def _rows(path: str, everywhere: Sequence[tuple[int, ArrayNan]]) -> list[tuple[str, str, str, str]]:
    """One row for the array, and one for each piece with something in it; none where there is nothing."""
    pieces = [
        (process_id, piece) for process_id, array in everywhere for piece in array.pieces or ()
    ]
    touched = [(p, piece) for p, piece in pieces if piece.nan or piece.inf]
    if not touched:
        return []
    first = everywhere[0][1]
    nan = sum(piece.nan for _, piece in pieces if piece.first)
    inf = sum(piece.inf for _, piece in pieces if piece.first)
    return [
        (path, array_type_text(first.dtype, first.shape), str(nan), str(inf)),
        *(
            (
                f"  process {process_id}, device {piece.device}",
                piece.index,
                str(piece.nan),
                str(piece.inf),
            )
            for process_id, piece in touched
        ),
    ]
