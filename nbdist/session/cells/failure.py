"""The error that a failed cell raises in the notebook: the first cause in full, a line for every other process.

`outcome_text` and `ending_text` are the short forms. A debugger for the error needs idle processes on which a cell
has failed (`refuse_in_cell`, `refuse_without_failure`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from nbdist.errors import CollectiveError, ProcessError, SessionError
from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.outcome import (
    ProcessOutcome,
    failure_lines,
    first_line,
    named_first,
    place,
    place_text,
    processes_on_hosts_text,
)
from nbdist.spelling import command

UNTRUE = "Numbers that this cell printed after that may be wrong: do not use them."

STOPPED = "StoppedBeforeStep"
"""The class of the error of a process that left before a step; see `nbdist.engine.cell.interrupts`."""


def failure(
    outcomes: Mapping[int, ProcessOutcome],
    tracebacks: Mapping[int, str],
    last_lines: Mapping[int, tuple[str, ...]],
    *,
    advice: str | None,
    diverged: str | None = None,
    mixed: bool = False,
    in_vain: str | None = None,
) -> ProcessError | None:
    """Return the exception for a cell that has ended; None if it succeeded.

    Args:
      outcomes: The final outcome of each process.
      tracebacks: IPython's tracebacks, by process id.
      last_lines: The last lines that ended processes wrote, by process id.
      advice: Why the session is out of step and how to go on, as the end of a sentence; None if it is in step.
      diverged: How the cell left the processes out of step. This is a failure even if no process raised, and is
        shown if all processes raised the same.
      mixed: Whether numbers printed since then may be wrong; shown however the cell ended.
      in_vain: What processes waited for in vain, if nothing else has failed.
    """
    failed = [s for s in outcomes.values() if s.outcome not in ("finished", "running")]
    if not failed:
        return None if diverged is None else _diverged(diverged, advice, mixed=mixed)
    cause = named_first(outcomes.values()) or failed[0]
    same = [s.process_id for s in failed if (s.outcome, s.error) == (cause.outcome, cause.error)]
    if in_vain is not None and cause.outcome == "interrupted":
        out = "" if advice is None else f" The session is out of step{advice}"
        untrue = f"{UNTRUE}\n" if mixed else ""
        return CollectiveError(
            in_vain + out, tuple(failed), f"{untrue}CollectiveError: {in_vain}{out}"
        )
    summary = f"ProcessError: {_headline(cause, same, outcomes)}"
    if advice is not None:
        summary += f"; the session is out of step{advice}"
    body: list[str] = []
    if cause.process_id in tracebacks:
        body += [_named(outcomes, same), tracebacks[cause.process_id]]
    elif cause.error is not None:
        body += failure_lines(cause)
    else:
        body.append(f"{processes_text(same)}   {_ending(cause)}")
    if lines := last_lines.get(cause.process_id):
        body += ["   its last lines:", *(f"   {line}" for line in lines)]
    body += _others(outcomes, set(same))
    alike = cause.outcome == "raised" and len(same) == len(outcomes)
    if diverged is not None and (mixed or (alike and advice is None)):
        # If all processes ended alike, no other line says why something was lost.
        body.append(f"The session was found out of step: {diverged}")
        body += [UNTRUE] if mixed else []
    return ProcessError(
        summary.removeprefix("ProcessError: "),
        tuple(sorted(failed, key=lambda one: one is not cause)),
        "\n".join([*body, summary]),
    )


def outcome_text(outcomes: Mapping[int, ProcessOutcome]) -> str:
    """Return `processes 0–3 finished`, or the first cause of a failure: `process 1 raised ValueError`."""
    failed = [s for s in outcomes.values() if s.outcome != "finished"]
    if not failed:
        return f"{processes_text(outcomes)} finished"
    cause = named_first(outcomes.values()) or failed[0]
    same = [s.process_id for s in failed if (s.outcome, s.error) == (cause.outcome, cause.error)]
    return _headline(cause, same, outcomes)


def ending_text(number: int, outcomes: Mapping[int, ProcessOutcome], seconds: float) -> str:
    """Return `cell 5 ended after 3.2 s: processes 0–3 finished`."""
    return f"cell {number} ended after {seconds_text(seconds)}: {outcome_text(outcomes)}"


def _diverged(diverged: str, advice: str | None, *, mixed: bool) -> ProcessError:
    """Return the error of a cell that all processes finished without computing the same."""
    text = f"all processes finished the cell, but {diverged}"
    out = "" if advice is None else f"; the session is out of step{advice}"
    advice = "All processes must call the same functions on global arrays, in the same order."
    lines = [*([UNTRUE] if mixed else []), advice, f"ProcessError: {text}{out}"]
    return ProcessError(f"{text}{out}", (), "\n".join(lines))


def _named(outcomes: Mapping[int, ProcessOutcome], ids: list[int]) -> str:
    return processes_on_hosts_text([outcomes[p] for p in ids])


def _headline(
    cause: ProcessOutcome, same: list[int], outcomes: Mapping[int, ProcessOutcome]
) -> str:
    error = cause.error or ""
    if cause.outcome == "raised":
        alike = [s.process_id for s in outcomes.values() if _raised_like(s, cause)]
        return f"{processes_text(alike)} raised {error.partition(':')[0]}"
    if cause.outcome == "gone":
        return f"{_named(outcomes, same)} {first_line(error)}"
    if cause.outcome == "interrupted" and error.startswith(STOPPED):
        return f"{processes_text(same)} {error.partition(': ')[2]}"
    if cause.outcome == "not run":
        return f"not run on {processes_text(same)}{f': {error}' if error else ', stopped before it began'}"
    if cause.outcome == "stuck":
        return f"{processes_text(same)} did not stop when interrupted"
    return f"{processes_text(same)} interrupted"


def _raised_like(one: ProcessOutcome, cause: ProcessOutcome) -> bool:
    """Return whether a process raised the same class of error in the same line; the text may differ.

    An error in another line may be a mere consequence: a collective fails when the process of `cause` is missing.
    """
    classes = {(s.error or "").partition(":")[0] for s in (one, cause)}
    return one.outcome == "raised" and len(classes) == 1 and one.line == cause.line


def _others(outcomes: Mapping[int, ProcessOutcome], left_out: set[int]) -> list[str]:
    """Return one line for every other process; equal lines are merged."""
    said: dict[str, list[int]] = defaultdict(list)
    for process_id, process in outcomes.items():
        if process_id not in left_out:
            said[_ending(process)].append(process_id)
    return [f"{processes_text(ids)}   {text}" for text, ids in said.items()]


def _ending(process: ProcessOutcome) -> str:
    where = place_text(*place(process.activity))
    match process.outcome:
        case "finished":
            return "finished the cell"
        case "interrupted" if (process.error or "").startswith(STOPPED):
            return (process.error or "").partition(": ")[2]
        case "interrupted":
            waited = process.activity is None or process.activity.waiting
            return f"interrupted {'while waiting ' if waited else ''}{where}"
        case "stuck" | "running":
            return f"stuck {where}"
        case "not run":
            return (
                f"not run{f': {process.error}' if process.error else ', stopped before it began'}"
            )
        case _:
            said = first_line(process.error or "").rstrip(".")
            seen = "last seen at " if process.outcome == "gone" else ""
            at = f", {seen}line {process.line}" if process.line else ""
            return f"{said}{at}"


def refuse_in_cell(busy: Collection[int]) -> None:
    """Refuse a debugger while a process is in the middle of a cell.

    Raises:
      SessionError: A process is in a cell.
    """
    if busy:
        verb = "is" if len(busy) == 1 else "are"
        raise SessionError(
            f"{processes_text(busy)} {verb} in the middle of a cell, and not at a breakpoint. "
            f"{command('stacks_of', min(busy))} shows where, {command('interrupt')} ends it."
        )


def refuse_without_failure(failures: Mapping[int, str | None]) -> None:
    """Refuse a debugger unless a cell has failed on each process.

    Args:
      failures: The error of the last failed cell on each process, by process id; None if none has failed.

    Raises:
      SessionError: No cell has failed on one of the processes.
    """
    sound = [p for p, error in failures.items() if error is None]
    if sound:
        raise SessionError(
            f"No cell has failed on {processes_text(sound)}, so there is no error to inspect. breakpoint() in a "
            f"{command('cell')} stops a process where you want."
        )
